"""Designs beside the adaptive one: random, latin, a Gaussian process of scikit-learn, and Optuna's TPE."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import qmc

from _oracles import Oracle
from steplab.planning.adaptive.chooser import Aim, Observed, next_batch, start_size
from steplab.planning.adaptive.surrogate import Sizes, learn

Array = np.ndarray
REFERENCES = 200
REFIT = 1.3  # the peer learns its kernel again whenever it has that many times the rows


def adaptive(
    oracle: Oracle, budget: int, seed: int, aim: str = "predict", sizes: Sizes | None = None
) -> Iterator[Array]:
    """The rows after each batch of the adaptive design; a batch grows with what is there, as the figures do."""
    space, target = oracle.space, oracle.per_sample if aim == "best" else oracle.y
    observed: list[Observed] = []
    while len(observed) < budget:
        size = 4 if aim == "best" else max(4, len(observed) // 8)
        wish = Aim(aim, tolerance=1e-9, trials=budget, replicates=1, batch=size, seed=seed)
        batch = next_batch(space, wish, observed, sizes)
        if batch.ended:
            break
        observed += [Observed(c.row, 0, float(np.log(target[c.row])), 1.0, batch.number) for c in batch.choices]
        yield np.array([trial.row for trial in observed])


def kernel_known(oracle: Oracle, budget: int, seed: int) -> Iterator[Array]:
    """The adaptive design told from the start what it would have to learn: the kernel that the whole table gives."""
    known = learn(oracle.space, range(len(oracle.y)), np.log(oracle.y)).sizes
    return adaptive(oracle, budget, seed, sizes=known)


def random(oracle: Oracle, budget: int, seed: int) -> Iterator[Array]:
    """The first rows of a random order."""
    order = np.random.default_rng([seed, 1]).permutation(len(oracle.y))
    yield from (order[:number] for number in range(min(4, budget), budget + 1))


def latin(oracle: Oracle, budget: int, seed: int) -> Iterator[Array]:
    """For every number a hypercube of its own; each point is the nearest row that is still free."""
    places = _places(oracle)
    number = 4
    while number <= budget:
        cube = qmc.LatinHypercube(d=places.shape[1], rng=np.random.default_rng([seed, 2, number])).random(number)
        low, high = places.min(0), places.max(0)
        taken, rows = np.zeros(len(places), bool), []
        for point in low + cube * (high - low):
            distance = ((places - point) ** 2).sum(1)
            distance[taken] = np.inf
            rows.append(int(np.argmin(distance)))
            taken[rows[-1]] = True
        yield np.array(rows)
        number += max(1, number // 8)


def gaussian_process(oracle: Oracle, budget: int, seed: int) -> Iterator[Array]:
    """Expected variance reduction by scikit-learn's Gaussian process, a length for each factor, begun at random."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    places, logs = _places(oracle), np.log(oracle.y)
    rng = np.random.default_rng([seed, 3])
    begin = start_size(oracle.space, Aim(trials=budget, replicates=1))
    rows = [int(row) for row in rng.permutation(len(places))[:begin]]
    references = rng.choice(len(places), min(REFERENCES, len(places)), replace=False)
    kernel = ConstantKernel(1.0) * RBF(np.ones(places.shape[1])) + WhiteKernel(1e-2)
    learned_at = 0
    while len(rows) < budget:
        yield np.array(rows)
        if len(rows) >= REFIT * learned_at:
            learned_at = len(rows)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of lengths at their bounds
                process = GaussianProcessRegressor(kernel, normalize_y=True).fit(places[rows], logs[rows])
            smooth, noise = process.kernel_.k1, process.kernel_.k2.noise_level
        rows += _most_reducing(smooth, noise, places, rows, references, max(4, len(rows) // 8))
    yield np.array(rows[:budget])


def _most_reducing(
    smooth: Callable[[Array, Array], Array], noise: float, places: Array, rows: list[int], at: Array, number: int
) -> list[int]:
    """Rows that reduce the mean variance most, one after the other; a chosen one is a further row of the factor."""
    factor = np.linalg.cholesky(smooth(places[rows], places[rows]) + (noise + 1e-9) * np.eye(len(rows)))
    solved = solve_triangular(factor, smooth(places[rows], places), lower=True)
    cross, variance = smooth(places[at], places) - solved[:, at].T @ solved, smooth.diag(places) - (solved**2).sum(0)
    chosen: list[int] = []
    for _ in range(min(number, len(places) - len(rows))):
        gain = (cross**2).mean(0) / (np.maximum(variance, 1e-12) + noise)
        gain[rows + chosen] = -1.0
        row = int(np.argmax(gain))
        column = smooth(places, places[[row]])[:, 0] - solved.T @ solved[:, row]
        step = column / np.sqrt(max(variance[row], 1e-12) + noise)
        cross, variance, solved = cross - np.outer(step[at], step), variance - step**2, np.vstack([solved, step])
        chosen.append(row)
    return chosen


def tpe(oracle: Oracle, budget: int, seed: int) -> Iterator[Array]:
    """Optuna's TPE over the levels of each factor; what is not in the table is the nearest row that is."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    places = _places(oracle)
    levels = {name: sorted(oracle.X[name].unique().tolist()) for name in oracle.X.columns}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    rows: list[int] = []
    while len(rows) < budget:
        trial = study.ask()
        config = {
            name: trial.suggest_categorical(name, values)
            if isinstance(values[0], str)
            else values[trial.suggest_int(name, 0, len(values) - 1)]
            for name, values in levels.items()
        }
        row = _nearest(oracle, places, config)
        study.tell(trial, float(np.log(oracle.per_sample[row])))
        rows.append(row)
    yield np.array(rows)


def _nearest(oracle: Oracle, places: Array, config: dict[str, object]) -> int:
    same = np.ones(len(places), bool)
    for name, value in config.items():
        same &= (oracle.X[name] == value).to_numpy()
    if same.any():
        return int(np.argmax(same))
    apart = np.zeros(len(places))
    for name, value in config.items():
        column = oracle.X[name]
        if isinstance(value, str):
            apart += (column != value).to_numpy(float)
        else:
            ranks = column.rank(method="dense").to_numpy()
            wanted = ranks[(column == value).to_numpy().argmax()]
            apart += ((ranks - wanted) / max(1.0, ranks.max() - 1)) ** 2
    return int(np.argmin(apart))


def _places(oracle: Oracle) -> Array:
    space = oracle.space
    dummies = [np.eye(int(column.max()) + 1)[column] * 0.5 for column in space.levels.T]
    return np.column_stack([space.points, *dummies])


DESIGNS = {
    "adaptive": adaptive, "random": random, "latin": latin, "library GP": gaussian_process, "kernel known": kernel_known
}  # fmt: skip

"""The time of a synchronous training step from its physics: compute, waiting, collectives, overlap.

t = (C^γ + S^γ)^(1/γ), with
C = (overhead + per_sample · batch · Π factor^u) · Π level      what a rank computes on its own
S = (latency·[N>1] + between·[K>1] + reach·(K^p − 1)/p + within·ln(N/K)) · Π factor^v · Π level + wire·E

E are the seconds that a network's profile gives for the exchange, where there is a column of them, and wire is near 1.
If the workers share a batch, it counts as batch / N. N workers on K nodes; without a column of nodes, N
stands for K and the terms of nodes are left out. The flat law is the same with all workers as equals: reach·(N^p − 1)/p
and no `within`, as one ring over all ranks behaves. The contended law multiplies C by 1 + contention·(n − 1) for the n
workers that share a node (without nodes: all of them), and the linear law expects p near 1.
γ = 1 adds the two, γ → ∞ hides the shorter behind the longer: the overlap of the Pollux paper (Qiao and
others, OSDI 2021, section 3.2). The power p joins three laws: −1 is the bandwidth term
(N−1)/N of a ring, 0 the ln N of a tree's latency and of waiting for the slowest of N ranks (the expected
maximum of N exponential times grows so), 1 the N−1 hops of a ring's latency (Thakur, Rabenseifner and Gropp:
Optimization of collective communication operations in MPICH, 2005). Weak priors keep what the data do not
determine at a usual value, so that extrapolation stays sane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import expit

from steplab.models.columns.meaning import Parts

Array = np.ndarray
# Relative errors well above this count linearly, not squared: cluster measurements have outliers.
TYPICAL_ERROR = 0.05
STRONGEST_OVERLAP = 10.0
MOST_ROWS = 4000
LEAST_GROWTH = 1e-3
# Prior widths (standard deviations): a factor of e^10 for times, little for the growth power.
TIMES = ("overhead", "per_sample", "latency", "reach", "between", "within", "wire")
WIDE, GROWTH_WIDTH, POWER_WIDTH, SYNC_POWER_WIDTH = 10.0, 0.1, 3.0, 2.0
USUAL_CONTENTION, CONTENTION_WIDTH = 0.03, 2.0
WIRE_WIDTH = 1.0  # a profile is right to a factor of e
LINEAR_GROWTH = 2.0  # tanh 2 is 0.96, next to linear


@dataclass(frozen=True)
class Factor:
    """A further factor of the time: a power of a positive column, an exponential, or one level."""

    column: str
    kind: str
    centre: float = 1.0
    scale: float = 1.0
    level: str = ""
    reference: str = ""

    def values(self, frame: pd.DataFrame) -> Array:
        """What the factor's coefficient multiplies, in logarithms of time."""
        if self.kind == "level":
            return np.asarray(frame[self.column].to_numpy() == self.level, float)
        values = frame[self.column].to_numpy(float)
        if self.kind == "power":
            # Below the smallest positive double there is nothing to take a power of.
            return np.asarray(np.log(np.maximum(values, 1e-300) / self.centre))
        return np.asarray((values - self.centre) / self.scale)


def factors(frame: pd.DataFrame, numeric: Sequence[str], levels: dict[str, tuple[str, ...]]) -> list[Factor]:
    """The factors beside workers, batch and nodes: constant columns say nothing and are left out."""
    listed = []
    for column in numeric:
        values = frame[column].to_numpy(float)
        if np.ptp(values) == 0:
            continue
        if np.min(values) > 0:
            listed.append(Factor(column, "power", float(np.exp(np.mean(np.log(values))))))
        else:
            listed.append(Factor(column, "linear", float(np.mean(values)), float(np.std(values))))
    return listed + [
        Factor(c, "level", level=name, reference=known[0]) for c, known in levels.items() for name in known[1:]
    ]


@dataclass(frozen=True)
class Inputs:
    """The arrays that the physics reads."""

    batch: Array
    workers: Array
    nodes: Array
    sizes: Array
    levels: Array
    exchange: Array

    def take(self, rows: Array) -> Inputs:
        """Some of the rows."""
        return Inputs(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class StepLaw:
    """Which unknowns the law has: decided by the columns that there are."""

    parts: Parts
    factors: tuple[Factor, ...]
    flat: bool = False  # one collective over all workers, rather than within nodes and then between them
    linear: bool = False  # growth in proportion to the workers is the usual, rather than to their logarithm
    contended: bool = False  # workers of a node slow each other's compute down

    @property
    def names(self) -> tuple[str, ...]:
        """The unknowns in the order of the parameter vector."""
        sizes = any(factor.kind != "level" for factor in self.factors)
        names = ["overhead"] if self.parts.batch or sizes else []
        names.append("per_sample")
        if self.parts.workers:
            names += ["overlap", "growth", "latency", "reach"] + (["contention"] if self.contended else [])
            names += [] if not self.parts.nodes else ["between"] if self.flat else ["between", "within"]
            names += ["wire"] if self.parts.exchange else []
        for part in ("compute", "sync") if self.parts.workers else ("compute",):
            names += [f"{part}:{factor.column}:{factor.level}" for factor in self.factors]
        return tuple(names)

    def inputs(self, frame: pd.DataFrame) -> Inputs:
        """The arrays of a table."""
        ones = np.ones(len(frame))
        workers = np.maximum(frame[self.parts.workers].to_numpy(float), 1) if self.parts.workers else ones
        nodes = np.clip(frame[self.parts.nodes].to_numpy(float), 1, workers) if self.parts.nodes else ones
        batch = frame[self.parts.batch].to_numpy(float) if self.parts.batch else ones
        batch = batch / workers if self.parts.shared else batch
        blocks = [
            [factor.values(frame) for factor in self.factors if (factor.kind == "level") == is_level]
            for is_level in (False, True)
        ]
        sizes, levels = (np.column_stack(b) if b else np.empty((len(frame), 0)) for b in blocks)
        exchange = frame[self.parts.exchange].to_numpy(float) if self.parts.exchange else np.zeros(len(frame))
        return Inputs(batch, workers, nodes, sizes, levels, np.maximum(exchange, 0.0))

    def prior(self, y: Array, batch: Array) -> tuple[Array, Array]:
        """The usual value of each unknown and how far it may plausibly lie from it."""
        typical = float(np.median(y))
        usual = {"overhead": np.log(0.3 * typical), "overlap": 0.0, "growth": 0.0}
        usual["per_sample"] = np.log(0.3 * typical / float(np.median(batch)))
        usual |= dict.fromkeys(("latency", "reach", "between", "within"), np.log(0.1 * typical))
        usual |= {"contention": np.log(USUAL_CONTENTION), "growth": LINEAR_GROWTH if self.linear else 0.0}
        width = {"growth": GROWTH_WIDTH, "contention": CONTENTION_WIDTH, "wire": WIRE_WIDTH}
        centre = [usual.get(name, 0.0) for name in self.names]
        widths = [
            width.get(name, POWER_WIDTH if name.startswith("compute:") else
                      SYNC_POWER_WIDTH if name.startswith("sync:") else WIDE)
            for name in self.names
        ]  # fmt: skip
        return np.array(centre), np.array(widths)


def overlap(theta: float) -> float:
    """The overlap γ from its unbounded parameter."""
    return float(1 + (STRONGEST_OVERLAP - 1) * expit(theta))


def growth(theta: float) -> float:
    """The growth power p from its unbounded parameter."""
    return float(np.tanh(theta))


def _growing(workers: Array, power: float) -> Array:
    """The derivative of `grown` by the power, which is ½·ln² N at p = 0."""
    logs = np.log(workers)
    if abs(power) < 1e-4:
        return np.asarray(logs**2 * (0.5 + power * logs / 3))
    return np.asarray((logs * np.exp(power * logs) - grown(workers, power)) / power)


def grown(workers: Array, power: float) -> Array:
    """(N^p − 1)/p, which is ln N at p = 0.

    >>> grown(np.array([1.0, 4.0]), 0.5).tolist(), grown(np.array([1.0]), 0.0).tolist()
    ([0.0, 2.0], [0.0])
    """
    logs = np.log(workers)
    return np.asarray(np.expm1(power * logs) / power if abs(power) > 1e-6 else logs)


@dataclass(frozen=True)
class _Step:
    """The parts of a step's time, row by row, and the values of the unknowns behind them."""

    value: dict[str, float]
    sized: Array  # compute that grows with batch and sizes
    compute: Array
    sync: Array
    sync_scale: Array
    time: Array


def _step(law: StepLaw, theta: Array, at: Inputs) -> _Step:
    value = dict(zip(law.names, np.clip(theta, -40, 40), strict=True))
    sizes, levels = _effects(law, value, at, "compute")
    sized = np.exp(value["per_sample"] + sizes + levels) * at.batch
    compute = sized + np.exp(value["overhead"] + levels) if "overhead" in value else sized
    if "contention" in value:
        slower = 1 + np.exp(value["contention"]) * _sharing(at)
        sized, compute = sized * slower, compute * slower
    if not law.parts.workers:
        return _Step(value, sized, compute, np.zeros(len(sized)), np.ones(len(sized)), compute)
    sizes, levels = _effects(law, value, at, "sync")
    scale = np.exp(np.clip(sizes + levels, -40, 40))
    sync = _collective(value, at) * scale + _wire(value, at)
    gamma = overlap(value["overlap"])
    longer = np.maximum(compute, sync)
    time = longer * ((compute / longer) ** gamma + (sync / longer) ** gamma) ** (1 / gamma)
    return _Step(value, sized, compute, sync, scale, time)


def _sharing(at: Inputs) -> Array:
    """How many other workers share a node with each; without a column of nodes all of them do."""
    return np.asarray(at.workers / at.nodes - 1)


def step_time(law: StepLaw, theta: Array, at: Inputs) -> Array:
    """The time of a step for each row."""
    return _step(law, theta, at).time


def log_gradient(law: StepLaw, theta: Array, at: Inputs) -> Array:
    """The derivatives of ln t by each unknown, row by row."""
    return _slopes(law, _step(law, theta, at), at)


def _slopes(law: StepLaw, step: _Step, at: Inputs) -> Array:
    columns: dict[str, Array] = {"per_sample": step.sized / step.compute}
    columns["overhead"] = 1 - columns["per_sample"]
    columns |= _factor_columns(law, at, "compute", columns["per_sample"], np.ones(len(step.time)))
    if law.contended:
        more = np.exp(step.value["contention"]) * _sharing(at)
        columns["contention"] = more / (1 + more)
    if not law.parts.workers:
        return np.column_stack([columns[name] for name in law.names])
    # By the shares of compute and communication in t^γ.
    gamma = overlap(step.value["overlap"])
    share = (step.compute / step.time) ** gamma
    columns = {name: share * column for name, column in columns.items()}
    # What one worker does not send has no share to divide.
    sync = np.maximum(step.sync, 1e-300)
    for name, term in _collective_terms(step.value, at).items():
        columns[name] = (1 - share) * term * step.sync_scale / sync
    wire = _wire(step.value, at)
    columns["wire"] = (1 - share) * wire / sync
    scaled = (step.sync - wire) / sync  # what factors act on
    columns |= {name: (1 - share) * column for name, column in _factor_columns(law, at, "sync", scaled, scaled).items()}
    power, across = growth(step.value["growth"]), at.nodes if "within" in step.value else at.workers
    reach = np.exp(step.value["reach"]) * _growing(across, power) * step.sync_scale
    columns["growth"] = (1 - share) * reach / sync * (1 - power**2)
    columns["overlap"] = _by_overlap(step, share, gamma)
    return np.column_stack([columns[name] for name in law.names])


def _by_overlap(step: _Step, share: Array, gamma: float) -> Array:
    """The derivative by the unbounded parameter of γ; a part with no share has no logarithm that counts."""
    parts = (share, step.compute), (1 - share, step.sync)
    entropy = sum(part * np.log(np.maximum(time, 1e-300) / step.time) for part, time in parts)
    bounded = (gamma - 1) / (STRONGEST_OVERLAP - 1)
    return np.asarray(entropy / gamma * (STRONGEST_OVERLAP - 1) * bounded * (1 - bounded))


def _factor_columns(law: StepLaw, at: Inputs, part: str, sizes: Array, levels: Array) -> dict[str, Array]:
    """The derivatives of the logarithm of a part by its factors; sizes and levels act on a share of it."""
    columns, seen = {}, {"size": 0, "level": 0}
    for factor in law.factors:
        kind, block = ("level", at.levels) if factor.kind == "level" else ("size", at.sizes)
        values = block[:, seen[kind]]
        seen[kind] += 1
        columns[f"{part}:{factor.column}:{factor.level}"] = values * (levels if kind == "level" else sizes)
    return columns


def _effects(law: StepLaw, value: dict[str, float], at: Inputs, part: str) -> tuple[Array, Array]:
    powers = {is_level: np.array([
        value[f"{part}:{factor.column}:{factor.level}"]
        for factor in law.factors if (factor.kind == "level") == is_level
    ]) for is_level in (False, True)}  # fmt: skip
    sizes = at.sizes @ powers[False] if at.sizes.size else np.zeros(len(at.batch))
    levels = at.levels @ powers[True] if at.levels.size else np.zeros(len(at.batch))
    return np.clip(sizes, -40, 40), np.clip(levels, -40, 40)


def _collective_terms(value: dict[str, float], at: Inputs) -> dict[str, Array]:
    """The terms of the communication, each under the name of its coefficient."""
    across = at.nodes if "within" in value else at.workers
    terms = {"latency": np.minimum(at.workers - 1, 1), "reach": grown(across, growth(value["growth"]))}
    if "between" in value:
        terms["between"] = np.minimum(at.nodes - 1, 1)
    if "within" in value:
        terms["within"] = np.log(at.workers / at.nodes)
    return {name: np.exp(value[name]) * term for name, term in terms.items()}


def _collective(value: dict[str, float], at: Inputs) -> Array:
    return np.asarray(sum(_collective_terms(value, at).values()))


def _wire(value: dict[str, float], at: Inputs) -> Array:
    """What the profile's exchange takes of the step."""
    return np.exp(value["wire"]) * at.exchange if "wire" in value else np.zeros(len(at.exchange))


def fit_law(law: StepLaw, at: Inputs, y: Array, start: Array | None = None, *, quick: bool = False) -> Array:
    """The unknowns by robust least squares on logarithms of time, with weak priors, from several starts or one."""
    if len(y) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
        at, y = at.take(rows), y[rows]
    # In units of a typical time, so that the target's own unit cannot move the search.
    typical = float(np.median(y))
    shift = np.array([np.log(typical) if name in TIMES else 0.0 for name in law.names])
    centre, width = law.prior(y / typical, at.batch)
    # A profile has its own seconds, so that its factor is near 1 in the target's unit, not in typical times.
    centre = np.where(np.array(law.names) == "wire", centre - shift, centre)
    logs = np.log(y / typical)

    def residuals(theta: Array) -> Array:
        ratio = (np.log(np.maximum(step_time(law, theta, at), 1e-300)) - logs) / TYPICAL_ERROR
        # The square root of the pseudo-Huber loss: quadratic near zero, linear far away.
        robust = np.sign(ratio) * np.sqrt(2 * (np.sqrt(1 + ratio**2) - 1))
        return np.concatenate([robust, (theta - centre) / width])

    def slopes(theta: Array) -> Array:
        step = _step(law, theta, at)
        ratio = (np.log(np.maximum(step.time, 1e-300)) - logs) / TYPICAL_ERROR
        root = np.sqrt(1 + ratio**2)
        # d/dr of sign(r)·sqrt(2(√(1+r²) − 1)), written so that it is 1 at r = 0.
        bend = np.sqrt((root + 1) / 2) / root
        return np.vstack([bend[:, None] * _slopes(law, step, at) / TYPICAL_ERROR, np.diag(1 / width)])

    starts = [start - shift] if start is not None else [centre] if quick else _starts(law, centre)
    descents = [least_squares(residuals, begin, slopes, max_nfev=150) for begin in starts]
    theta = min(descents, key=lambda result: float(result.cost)).x + shift
    # A growth of next to nothing is the logarithm, which reads better than a tiny power.
    return np.where((np.array(law.names) == "growth") & (np.abs(theta) < LEAST_GROWTH), 0.0, theta)


def _starts(law: StepLaw, centre: Array) -> list[Array]:
    """From the usual values, from compute-bound and from communication-bound."""
    steps = {"overhead": (1, -2), "per_sample": (-1, 1), "overlap": (1, -1), "growth": (0.1, -0.1)}
    steps |= dict.fromkeys(("latency", "reach", "between", "within"), (-1, 1))
    moves = [np.array([steps.get(name, (0, 0))[i] for name in law.names], float) for i in (0, 1)]
    return [centre, centre + moves[0], centre + moves[1]]


def misfit(law: StepLaw, theta: Array, at: Inputs, y: Array) -> float:
    """The mean absolute error of the logarithms."""
    return float(np.mean(np.abs(np.log(step_time(law, theta, at)) - np.log(y))))


def uncertainty(law: StepLaw, theta: Array, at: Inputs, y: Array) -> Array:
    """The standard error of each unknown, from the curvature at the solution and the priors."""
    base = np.log(step_time(law, theta, at))
    scatter = max(1.4826 * float(np.median(np.abs(np.log(y) - base))), 1e-6)
    J = log_gradient(law, theta, at) / scatter
    _, width = law.prior(y, at.batch)
    information = J.T @ J + np.diag(width**-2.0)
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(information))))

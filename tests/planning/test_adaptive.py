"""What an adaptive design chooses, on laws that are known: nothing is timed, everything is seeded."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest

from steplab.models.auto import Auto
from steplab.planning.adaptive.chooser import (
    DRAWN,
    TO_FIT,
    Aim,
    Observed,
    _Chooser,
    _looked_at,
    next_batch,
    start_size,
)
from steplab.planning.adaptive.comparing import following, verdicts, wanted
from steplab.planning.adaptive.outlook import Wanted, outlook
from steplab.planning.adaptive.space import Space
from steplab.planning.adaptive.surrogate import Surrogate, _Likelihood, learn, prior

GRID = pd.DataFrame(
    list(product([8, 16, 32, 64, 128], [1, 2, 4, 8], ["sync", "async"])), columns=["batch_size", "workers", "strategy"]
)
SPACE = Space(GRID)


def law(frame: pd.DataFrame) -> np.ndarray:
    """The logarithm of a step's time."""
    exchange = np.where(frame["strategy"] == "sync", 0.02, 0.005) * np.log2(frame["workers"])
    return np.log(0.005 + 0.001 * frame["batch_size"] + exchange).to_numpy()


TRUTH = law(GRID)


def study(aim: Aim, noise: float = 0.0, seconds=lambda row: 1.0, seed: int = 0, fails=()) -> list[Observed]:
    """A whole adaptive study against the law."""
    rng, observed = np.random.default_rng(seed), []
    while not (batch := next_batch(SPACE, aim, observed)).ended:
        for choice in batch.choices:
            log = math.nan if choice.row in fails else TRUTH[choice.row] + noise * rng.standard_normal()
            observed.append(Observed(choice.row, choice.replicate, log, seconds(choice.row), batch.number))
    return observed


def error(observed: list[Observed]) -> float:
    """The mean relative error of what is known after some trials."""
    surrogate = learn(SPACE, [trial.row for trial in observed], np.array([trial.log for trial in observed]))
    return float(np.abs(np.expm1(surrogate.mean(np.arange(len(GRID))) - TRUTH)).mean())


def test_the_same_measurements_give_the_same_choices():
    measured = study(Aim(trials=12))
    aim = Aim(trials=40)
    assert next_batch(SPACE, aim, measured) == next_batch(SPACE, aim, list(measured))
    assert next_batch(SPACE, aim, []) == next_batch(SPACE, aim, [])


def test_what_is_known_for_sure_is_measured_until_a_model_can_be_fitted():
    easily = {"trials": 40, "start": 4, "tolerance": 1e3}
    rows = len(study(Aim(**easily)))
    assert rows >= Auto()._rows_needed(GRID) == TO_FIT
    assert len(study(Aim("best", **easily))) < TO_FIT  # a search needs no model


def test_no_trial_is_chosen_twice_and_the_budget_is_kept():
    measured = study(Aim(trials=23, tolerance=1e-6), noise=0.05)
    assert len(measured) == 23
    assert len({(trial.row, trial.replicate) for trial in measured}) == 23
    assert next_batch(SPACE, Aim(trials=23), measured).why == "ended: the budget of 23 trials is used up"


def test_the_start_block_fills_the_space_and_repeats_some_of_it():
    aim = Aim(trials=60)
    batch = next_batch(SPACE, aim, [])
    rows = [choice.row for choice in batch.choices]
    assert len(rows) == start_size(SPACE, aim) == 6
    assert {choice.replicate for choice in batch.choices} == {0, 1}
    assert set(GRID.iloc[rows]["strategy"]) == {"sync", "async"}
    assert all(choice.why.startswith("start block") for choice in batch.choices)


def test_it_needs_fewer_trials_than_random_ones():
    chosen = error(study(Aim(trials=16, replicates=1, tolerance=1e-6)))
    rng, errors = np.random.default_rng(3), []
    for _ in range(10):
        rows = rng.choice(len(GRID), 16, replace=False)
        errors.append(error([Observed(int(row), 0, float(TRUTH[row]), 1.0) for row in rows]))
    assert chosen < np.median(errors)


def test_it_stops_when_enough_is_known():
    aim = Aim(trials=40, replicates=1, tolerance=0.2)
    measured = study(aim)
    batch = next_batch(SPACE, aim, measured)
    assert len(measured) < 40 and "within the tolerance of 20.00%" in batch.why and error(measured) < 0.2


def test_noise_is_met_with_replicates():
    quiet = study(Aim(trials=30, tolerance=1e-6), noise=0.002)
    loud = study(Aim(trials=30, tolerance=1e-6), noise=0.4)
    repeated = [sum(trial.replicate > 0 for trial in measured) for measured in (quiet, loud)]
    assert repeated[1] > repeated[0]


def test_of_trials_that_tell_as_much_the_cheaper_are_taken_when_minutes_count():
    def slow(row: int) -> float:
        return 60.0 if GRID["workers"].iloc[row] == 8 else 1.0

    measured = study(Aim(minutes=6.0, tolerance=1e-6, replicates=1), seconds=slow)
    later = [trial for trial in measured if trial.batch > 0]
    share = np.mean([GRID["workers"].iloc[trial.row] == 8 for trial in later[: len(later) // 2]])
    assert share < 0.25  # as many as there are
    assert sum(trial.seconds for trial in measured) / 60 == pytest.approx(
        6, abs=4.1
    )  # a batch may begin before and end after


def test_it_finds_the_fastest():
    measured = study(Aim("best", trials=12, replicates=1, tolerance=1e-6))
    assert min(trial.log for trial in measured) == TRUTH.min()
    assert (
        "faster than the best so far"
        in next_batch(SPACE, Aim("best", trials=40, tolerance=1e-9), measured[:8]).choices[0].why
    )


def test_scaling_measures_at_the_ends_of_the_workers():
    measured = study(Aim("scaling", trials=20, replicates=1, tolerance=1e-6))
    counts = GRID["workers"].iloc[[trial.row for trial in measured if trial.batch > 0]]
    assert counts[:6].isin([1, 8]).mean() > 0.75  # half of the grid; later there are few left


def test_what_fails_is_not_tried_again_and_costs_budget():
    fails = set(np.flatnonzero(GRID["workers"] == 8))
    measured = study(Aim(trials=20, tolerance=1e-6), fails=fails)
    failed = [trial.row for trial in measured if math.isnan(trial.log) and trial.replicate == 0]
    assert not any(trial.row in failed for trial in measured if trial.replicate and trial.batch)
    assert len(measured) == 20 and len(failed) == len(set(failed)) and failed


def test_a_space_that_is_used_up_ends_the_study():
    measured = study(Aim(trials=1000, replicates=1, tolerance=1e-9))
    assert len(measured) == len(GRID)
    assert "every configuration" in next_batch(SPACE, Aim(trials=1000, replicates=1, tolerance=1e-9), measured).why


def test_the_gradient_of_the_likelihood_is_right():
    mean, spread = prior(2)
    rows = np.arange(20)
    likelihood = _Likelihood(SPACE, rows, TRUTH[rows] - TRUTH[rows].mean(), mean, spread)
    at = mean + 0.2
    _, slopes = likelihood(at)
    for number in range(len(at)):
        step = np.zeros_like(at)
        step[number] = 1e-5
        around = likelihood(at + step)[0] - likelihood(at - step)[0]
        # Central differences err by the square of the step.
        assert slopes[number] == pytest.approx(around / 2e-5, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("wanted", [Wanted(np.arange(40)), Wanted(np.arange(1, 40, 2), np.arange(0, 40, 2))])
def test_believing_a_trial_is_the_same_as_solving_with_it(wanted):
    rows = np.array([0, 7, 19, 33])
    known = learn(SPACE, rows.tolist(), TRUTH[rows])
    ahead = outlook(known, wanted).believing(11).believing(25)
    more = np.array([*rows, 11, 25])
    solved = outlook(Surrogate(SPACE, more, TRUTH[more], known.sizes), wanted)  # doubts do not depend on the times
    # The jitter of the factor and its noise are added in two different places.
    assert ahead.variance == pytest.approx(solved.variance, rel=1e-4, abs=1e-7)
    assert ahead.doubt == pytest.approx(solved.doubt, rel=1e-4, abs=1e-7)
    assert ahead.cross == pytest.approx(solved.cross, rel=1e-4, abs=1e-6)
    assert (ahead.doubt < outlook(known, wanted).doubt).all()


def test_left_out_trials_are_told_by_the_others():
    rows = np.arange(0, 40, 3)
    known = learn(SPACE, rows.tolist(), TRUTH[rows])
    without = Surrogate(SPACE, rows[1:], TRUTH[rows[1:]], known.sizes)
    # The level that is taken off first differs by a fourteenth of one trial's share: the constant's prior is wide.
    assert known.left_out()[0] == pytest.approx(float(without.mean(rows[:1])[0]), abs=1e-3)


def test_of_trials_that_tell_and_cost_as_much_chance_takes_one():
    measured = study(Aim(trials=6, tolerance=1e-6))
    chosen = {next_batch(SPACE, Aim(trials=40, batch=1, seed=seed), measured).choices[0].row for seed in range(30)}
    assert len(chosen) > 1


PAIR = Space(pd.DataFrame({"strategy": ["sync", "async"]}))


def compared(difference: float, noise: float, seed: int, matters: float = 0.05) -> tuple[int, str]:
    """Replicates of each of two configurations, and the verdict."""
    rng, observed = np.random.default_rng(seed), []
    aim = Aim("compare", matters=matters, trials=4000, replicates=2000)
    while not (batch := next_batch(PAIR, aim, observed)).ended:
        for choice in batch.choices:
            log = choice.row * math.log1p(difference) + noise * rng.standard_normal()
            observed.append(Observed(choice.row, choice.replicate, log, 1.0, batch.number))
    logs = {row: [trial.log for trial in observed if trial.row == row] for row in (0, 1)}
    return len(observed) // 2, verdicts(logs, matters)[0].verdict


def test_large_differences_need_few_replicates_and_small_ones_many():
    used = {d: np.median([compared(d, 0.15, seed)[0] for seed in range(15)]) for d in (0.2, 0.5)}
    assert used[0.5] < used[0.2] < 60


def test_wrong_verdicts_are_rare():
    told = [compared(0.2, 0.15, seed)[1] for seed in range(60)]
    # The looks together may err in 5 %: of 60, more than 8 would be a chance of one in a hundred.
    assert sum(verdict != "faster" for verdict in told) <= 8


def test_what_is_alike_is_told_as_that():
    assert compared(0.0, 0.02, 1)[1] == "alike"


def test_replicates_come_in_blocks_and_looks_grow():
    batch = next_batch(PAIR, Aim("compare", trials=100, replicates=50), [])
    assert [choice.replicate for choice in batch.choices] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [following(n) for n in (0, 4, 6, 12)] == [4, 6, 8, 16]
    assert wanted({0: [0.0] * 4, 1: [5.0, 5.1, 4.9, 5.0]}, 0.05, 50) == {}


def test_replicates_are_always_looked_at_and_of_the_rest_as_many_as_are_drawn():
    counts, free = Counter({3: 1, 5: 2}), np.arange(30)
    rows = _looked_at(free, counts, 8, np.random.default_rng(1)).tolist()
    assert {3, 5} <= set(rows) and len(rows) == len(set(rows)) == 10
    assert _looked_at(free, counts, None, np.random.default_rng(1)).tolist() == free.tolist()


def test_only_to_predict_a_region_chance_draws_the_candidates():
    measured = study(Aim(trials=6, tolerance=1e-6))
    looked_at = {kind: _Chooser(SPACE, Aim(kind, trials=40), tuple(measured))._gains().drawn
                 for kind in ("predict", "scaling", "best")}  # fmt: skip
    assert looked_at == {"predict": DRAWN, "scaling": None, "best": None}

"""Which trials to add to a table."""

import json

import numpy as np
import pandas as pd
import pytest
from known_law import measured

from steplab.core.errors import InputError, NotEnoughData
from steplab.planning.next_trials import plan_next

ROWS = measured(0.05)
FACTORS = ROWS[["batch_size", "workers"]]


def test_new_configurations_lie_between_what_was_measured():
    few = ROWS[ROWS["workers"] != 4].iloc[:9]
    plan = plan_next(few[["batch_size", "workers"]], few["t_iter"], None, trials=3)
    assert len(plan.rows) == 3
    assert all(8 <= row.at["batch_size"] <= 64 and 1 <= row.at["workers"] <= 8 for row in plan.rows)
    assert plan.expected_uncertainty < plan.uncertainty
    assert plan.expected_s is None and all(row.expected_s is None for row in plan.rows)


def test_seconds_of_trials_tell_what_the_next_take():
    took = pd.Series(np.where(FACTORS["workers"] == 8, 20.0, 2.0))
    plan = plan_next(FACTORS, ROWS["t_iter"], took, trials=2)
    assert plan.expected_s == pytest.approx(sum(row.expected_s for row in plan.rows)) and plan.expected_s > 0


def test_noise_asks_for_replicates():
    rng = np.random.default_rng(1)
    loud = pd.Series(np.exp(rng.standard_normal(len(FACTORS))), name="t_iter")
    plan = plan_next(FACTORS, loud, None, trials=6)
    assert any(row.again for row in plan.rows)


def test_comparing_repeats_what_cannot_be_told_apart():
    near = pd.DataFrame({"strategy": ["a", "b"] * 4})
    times = pd.Series([1.0, 1.01, 1.1, 1.0, 0.9, 1.05, 1.0, 1.02], name="t_iter")
    plan = plan_next(near, times, None, aim="compare", trials=10)
    assert plan.rows and all(row.again and "not told apart" in row.why for row in plan.rows)
    far = pd.Series([1.0, 9.0] * 4, name="t_iter") * (1 + 0.001 * np.arange(8))
    assert plan_next(near, far, None, aim="compare").rows == ()


@pytest.mark.parametrize(("change", "message"), [
    ({"aim": "win"}, "no aim 'win'"), ({"trials": 0}, "measures nothing"),
    ({"trials": 10**9}, "more than can be chosen at once"),
    ({"aim": "compare", "difference": 0.0}, "cannot be seen"),
])  # fmt: skip
def test_an_impossible_wish_is_one_sentence(change, message):
    with pytest.raises(InputError, match=message):
        plan_next(FACTORS, ROWS["t_iter"], None, **change)


def test_scaling_needs_workers():
    with pytest.raises(InputError, match="no factor counts workers"):
        plan_next(FACTORS.drop(columns="workers"), ROWS["t_iter"], None, aim="scaling")


def test_too_little_is_told():
    with pytest.raises(NotEnoughData, match="2 trials"):
        plan_next(FACTORS[:2], ROWS["t_iter"][:2], None)
    with pytest.raises(InputError, match="no factor varies"):
        plan_next(FACTORS[["workers"]].assign(workers=1.0), ROWS["t_iter"], None)
    with pytest.raises(InputError, match="no time"):
        plan_next(FACTORS, ROWS["t_iter"] - 1, None)


def test_the_best_of_a_study_is_the_fastest_per_sample(tmp_path, steplab, study_file):
    path = study_file(batch_size=[4, 8, 64], workers=[1], compute_s=0.01, sample_s=0.0001)
    assert steplab("run", path, "--out", "out").code == 0
    first = json.loads(steplab("plan", "next", "out", "--aim", "best", "--trials", "1", "--json").out)["rows"][0]
    assert first["at"]["batch_size"] == 64  # whose step is the longest, and whose samples are the quickest

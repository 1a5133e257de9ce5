import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import ModelError
from steplab.models.base import PerformanceModel
from steplab.models.generic import Generic
from steplab.models.held_out.extrapolation import combined_rate, distance, inner_borders, needed_rate, rates
from steplab.models.hybrid import Hybrid
from steplab.planning.predict import predict_table


def table(workers, law, seed=0, noise=0.03):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame([(n, b) for n in workers for b in (32, 64, 128, 256) for _ in range(3)], dtype=float)
    X.columns = ["workers", "batch_size"]
    y = law(X["workers"], X["batch_size"]) * np.exp(noise * rng.standard_normal(len(X)))
    return X, pd.Series(y, name="t_iter")


def stepped(n, b):
    return 0.01 + 2e-4 * b + 0.03 * (n > 1)


def test_distance_is_a_logarithm_of_the_ratio_and_a_share_of_the_width_where_there_is_none():
    assert distance(np.array([0.5, 2.0, 16.0]), 1.0, 8.0) == pytest.approx([np.log(2), 0, np.log(2)])
    assert distance(np.array([-5.0, 5.0, 20.0]), 0.0, 10.0).tolist() == [0.5, 0, 1]
    assert np.isfinite(distance(np.array([0.0]), 1.0, 8.0)).all()


def test_borders_leave_two_values_and_enough_rows_below_them():
    frame = pd.DataFrame({"n": np.repeat([1, 2, 4, 8, 16, 32, 64], 4)})
    assert [border.value for border in inner_borders(frame, "n", 3)] == [2, 4, 16, 32]
    assert [border.value for border in inner_borders(frame, "n", 12)] == [4, 8, 16, 32]
    assert inner_borders(pd.DataFrame({"n": [1, 2] * 9}), "n", 3) == []


def test_the_rate_is_what_widens_the_interval_to_hold_nine_in_ten():
    rng = np.random.default_rng(0)
    distances = rng.uniform(0.5, 2, 1000)
    scores = np.abs(rng.standard_normal(1000)) * (1 + 0.7 * distances)
    rate = needed_rate(scores, distances, 1.645)
    assert np.mean(scores <= 1.645 * (1 + rate * distances)) == pytest.approx(0.9, abs=0.001)


def test_one_border_counts_for_more_than_it_shows_two_the_larger_and_more_their_mean():
    assert combined_rate([], 0.1) is None
    assert combined_rate([1.0, 1.0, 1.0], 0.1) == 1.0
    assert combined_rate([1.0, 2.0, 3.0], 0.1) == 2.0
    assert combined_rate([1.0, 2.0], 0.1) == 2.0
    assert combined_rate([0.0, 0.0, 0.0], 0.1) == 0.25
    # What a single border asks for does not shrink with the noise inside: in logarithms, 0.3, 0.45, 0.7 and 1.2.
    for half in (0.01, 0.1, 0.3):
        single = [half * (combined_rate([needed / half], half) or 0) for needed in (0.04, 0.15, 0.6, 1.2)]
        assert single == pytest.approx([0.3, 0.45, 0.7, 1.2])


def test_borders_that_cannot_be_fitted_are_left_out():
    frame = pd.DataFrame({"n": np.repeat([1.0, 2, 4, 8, 16], 3)})

    def scored(border):
        return None if border.value < 4 else np.full(len(border.test), 2.0)

    assert rates(frame, ["n"], scored, 1.0, 1.0, 3)["n"] == pytest.approx(1.4, abs=0.1)
    assert rates(frame, ["n"], lambda border: None, 1.0, 1.0, 3) == {"n": None}


@pytest.mark.parametrize("model", [Hybrid, Generic])
def test_from_two_values_no_interval_is_given_and_the_prediction_says_so(model):
    X, y = table((1, 2), stepped)
    asked = pd.DataFrame({"workers": [2.0, 8.0], "batch_size": [64.0, 64.0]})
    known, beyond = predict_table(model(extrinsic=("workers", "batch_size")).fit(X, y), asked)
    assert known.low < known.value < known.high and not known.note
    assert (beyond.low, beyond.high) == (None, None)
    assert "no interval can be given" in beyond.note and "workers" in beyond.note
    # The step from one worker to several is no power: at 8 workers it is still the same step.
    assert beyond.value == pytest.approx(stepped(8, 64), rel=0.5)


def test_from_three_values_the_interval_is_given_and_far_wider_than_from_four():
    asked, widths = pd.DataFrame({"workers": [16.0], "batch_size": [64.0]}), []
    for workers in ((1, 2, 4), (1, 2, 4, 8)):
        X, y = table(workers, lambda n, b: 0.01 + 2e-4 * b + 0.008 * np.log2(n))
        low, high = Hybrid(extrinsic=("workers", "batch_size")).fit(X, y).predict_interval(asked)
        widths.append(np.log(high[0] / low[0]))
    assert np.isfinite(widths).all() and widths[0] > 2 * widths[1]


@pytest.mark.parametrize("law", [
    lambda n, b: 0.01 + 2e-4 * b + 0.0015 * n * np.log2(n),  # faster than in proportion
    lambda n, b: np.maximum(0.01 + 2e-4 * b, 0.006 * n * (n > 1)),  # overlapped until it is not
])  # fmt: skip
def test_from_three_values_laws_that_turn_away_are_held(law):
    held = []
    for seed in range(3):
        X, y = table((1, 2, 4), law, seed)
        new, t = table((8, 16), law, 100 + seed)
        low, high = Hybrid(extrinsic=("workers", "batch_size")).fit(X, y).predict_interval(new)
        held += ((low <= t) & (t <= high)).tolist()
    # 72 rows of three fits: their errors hang together, so the mark is below the nominal 90 %.
    assert np.mean(held) >= 0.75


@pytest.mark.parametrize("model", [Hybrid, Generic])
def test_outside_intervals_hold_new_measurements_of_a_law_with_a_step(model):
    held = []
    for seed in range(4):
        X, y = table((1, 2, 4, 8), stepped, seed)
        new, t = table((16, 32), stepped, 100 + seed)
        low, high = model(extrinsic=("workers", "batch_size")).fit(X, y).predict_interval(new)
        held += ((low <= t) & (t <= high)).tolist()
    # 96 rows of four fits: their errors hang together, so the mark is well below the nominal 90 %.
    assert np.mean(held) >= 0.8


def test_a_law_that_bends_beyond_the_range_has_wider_intervals_than_one_that_does_not():
    widths = []
    for bend in (0.0, 2e-3):
        X, y = table((1, 2, 4, 8), lambda n, b, bend=bend: 0.02 + 1e-4 * b + bend * n**2, noise=0.02)
        model = Generic(extrinsic=("workers", "batch_size"), form="source").fit(X, y)
        low, high = model.predict_interval(pd.DataFrame({"workers": [32.0], "batch_size": [64.0]}))
        widths.append(float(high[0] / low[0]))
    assert widths[1] > widths[0]


def test_rates_are_saved_and_files_without_them_widen_by_the_rule_of_before():
    X, y = table((1, 2, 4, 8), stepped)
    model = Hybrid(extrinsic=("workers", "batch_size")).fit(X, y)
    document, asked = model.to_document(), pd.DataFrame({"workers": [32.0], "batch_size": [64.0]})
    assert Hybrid.from_document(document).growth() == model.growth()
    before = Hybrid.from_document({k: v for k, v in document.items() if k != "growth"})
    assert before.growth() is None
    # ln(32/8) over the width ln 8 of the range, twice.
    assert before._spread(asked)[0] == pytest.approx(1 + 2 * np.log(4) / np.log(8))
    with pytest.raises(ModelError, match="damaged"):
        Hybrid.from_document({**document, "growth": {"workers": -1.0, "batch_size": 1.0}})


def test_fitting_alone_extrapolates_nothing(monkeypatch):
    X, y = table((1, 2, 4, 8), stepped)

    def fail(*rest):
        raise AssertionError("fit has extrapolated")

    monkeypatch.setattr(PerformanceModel, "_rates", fail)
    Generic(extrinsic=("workers", "batch_size")).fit(X, y).predict(X)

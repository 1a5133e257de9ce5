"""Whether another precision pays: the verdict of the pair, and the reason that the roofs give."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from steplab.analysis.precision import FACTOR, PrecisionGain, precision_sentences
from steplab.analysis.sentences import sentences
from steplab.analysis.study import Analysis, analyse, varied_factors
from steplab.analysis.utilisation import FLOPS, ROOF

FAST, SLOW = 0.01, 0.02  # seconds of compute


def analysed(synthetic: Callable[..., pd.DataFrame], half: float, full: float, roofs: tuple[float, float]) -> Analysis:
    """A configuration whose steps take so long in bfloat16 and in float32, under the roofs of both."""
    trials = synthetic([{"compute_s": seconds, "noise": 0.01} for seconds in (half, full)])
    precision = trials["compute_s"].map({full: "float32", half: "bfloat16"})
    roof = precision.map({"float32": roofs[0], "bfloat16": roofs[1]})
    factors = [FACTOR if name == "compute_s" else name for name in trials.attrs["factors"]]
    known = {FACTOR: precision, ROOF: roof, FLOPS: 1e9}
    return analyse(trials.assign(**known).drop(columns="compute_s"), factors)


def test_of_one_sure_configuration_and_an_unsure_one_both_are_told() -> None:
    unsure, sure = (
        PrecisionGain("bfloat16", {"batch_size": batch}, ratio, None, None, differs, None, None)
        for batch, ratio, differs in ((8, 0.98, False), (64, 1.5, True))
    )
    _, first, second = precision_sentences([unsure, sure], ["batch_size"])
    assert "batch_size 64" in first and "batch_size 8 is" in second


@pytest.mark.parametrize(
    ("half", "full", "roofs", "beginning", "reason"),
    [
        (FAST, SLOW, (1e11, 2e11), "bfloat16 pays: a step takes 0.", "Because this machine's products are 2 times as"),
        (SLOW, FAST, (1e11, 5e10), "bfloat16 does not pay: a step takes ", "Because this machine's products are 0.5"),
        (SLOW, FAST, (1e11, 2e11), "bfloat16 does not pay: a step takes ", "Although this machine's products can be 2"),
        (FAST, SLOW, (1e11, 5e10), "bfloat16 pays: a step takes 0.", "Although this machine's largest products are"),
        (FAST, SLOW, (1e11, float("nan")), "bfloat16 pays", "Why is not known: `steplab roofline` measures"),
    ],
)
def test_the_verdict_comes_with_its_reason(
    synthetic: Callable[..., pd.DataFrame], half: float, full: float, roofs: tuple[float, float], beginning: str,
    reason: str,
) -> None:  # fmt: skip
    analysis = analysed(synthetic, half, full, roofs)
    (gain,) = analysis.precision
    assert gain.differs and gain.low < gain.ratio < gain.high
    (told,) = [sentence for sentence in sentences(analysis) if sentence.evidence == "precision"]
    assert told.text.startswith(beginning)
    assert reason in told.text


def test_the_ratio_is_that_of_the_medians_and_the_shares_those_of_the_utilisation(
    synthetic: Callable[..., pd.DataFrame],
) -> None:
    analysis = analysed(synthetic, SLOW, FAST, (1e11, 2e11))
    groups = {group.factors[FACTOR]: group for group in analysis.groups}
    (gain,) = analysis.precision
    assert gain.ratio == pytest.approx(groups["bfloat16"].t_iter.median / groups["float32"].t_iter.median)
    assert gain.reached.share == groups["bfloat16"].utilisation.share.value
    assert gain.roof_gain == pytest.approx(2.0)


def test_steps_that_cannot_be_told_apart_are_not_judged(synthetic: Callable[..., pd.DataFrame]) -> None:
    analysis = analysed(synthetic, 1.0001 * FAST, FAST, (1e11, 2e11))
    (gain,) = analysis.precision
    assert (gain.pays, gain.verdict) == (None, "not told apart")
    assert gain.sentence(()).startswith("Whether bfloat16 pays is not beyond doubt")


def test_several_configurations_have_a_mean_and_the_sure_ones_are_told(synthetic: Callable[..., pd.DataFrame]) -> None:
    levels = [
        {"compute_s": seconds, "batch_size": batch, "noise": 0.01} for seconds in (FAST, SLOW) for batch in (8, 64)
    ]
    trials = synthetic(levels)
    precision = trials["compute_s"].map({SLOW: "float32", FAST: "bfloat16"})
    factors = [FACTOR if name == "compute_s" else name for name in trials.attrs["factors"]]
    analysis = analyse(trials.assign(**{FACTOR: precision}).drop(columns="compute_s"), factors)
    mean, *single = analysis.precision
    assert mean.factors is None and len(single) == 2
    assert single[0].ratio <= mean.ratio <= single[1].ratio
    first, *others = [sentence.text for sentence in sentences(analysis) if sentence.evidence == "precision"]
    assert first.startswith("On average over all configurations, a step in bfloat16 takes 0.")
    assert "In 2 of 2 configurations it surely pays, in 0 it surely does not." in first
    assert len(others) == 2 and all("batch_size" in text for text in others)


def test_a_study_in_one_precision_says_nothing_of_it(synthetic: Callable[..., pd.DataFrame]) -> None:
    trials = synthetic([{"workers": n} for n in (1, 2)])
    assert analyse(trials.assign(precision="float32"), [*trials.attrs["factors"], FACTOR]).precision == []


def test_a_single_level_that_applies_to_some_configurations_only_is_not_named() -> None:
    """As the width of a GPT-2 beside a ResNet; where nothing else tells two configurations apart, it is."""
    trials = pd.DataFrame({"network": ["gpt2", "resnet18"], "width": [256.0, None], "batch_size": [8, 8]})
    assert varied_factors(trials, ["network", "width", "batch_size"]) == ("network",)
    assert varied_factors(trials, ["width", "batch_size"]) == ("width",)

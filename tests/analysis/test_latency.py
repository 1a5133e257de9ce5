"""Latencies: quantiles of the raw iterations, engines ranked within a setting, nothing told from too few iterations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from steplab.analysis.latency import inference
from steplab.analysis.sentences import sentences
from steplab.analysis.study import Analysis, analyse

Analysed = Callable[..., Analysis]
FACTORS = ["framework", "batch_size"]


def times(middle: float, tail: float, n: int = 200) -> list[float]:
    """Times around a median, three of a hundred of them in the tail."""
    plain = np.linspace(0.99, 1.01, n) * middle
    plain[-max(3 * n // 100, 1) :] = tail
    return [float(time) for time in plain]


@pytest.fixture
def analysed(inferences: Callable[..., tuple[pd.DataFrame, pa.Table]]) -> Analysed:
    """The analysis of latencies by engine and batch size."""

    def analysis(latencies: dict[tuple[str, int], list[list[float]]]) -> Analysis:
        trials, iterations = inferences(latencies)
        return analyse(trials, FACTORS, iterations)

    return analysis


def steady(middle: float, tail: float, n: int = 200) -> list[list[float]]:
    return [times(middle * factor, tail * factor, n) for factor in (0.999, 1.0, 1.001)]


@pytest.fixture
def engines(analysed: Analysed) -> Analysis:
    """Two engines at two batch sizes; `a` has the lower median, `b` the lower tail."""
    return analysed(
        {
            ("a", 1): steady(0.001, 0.050),
            ("b", 1): steady(0.002, 0.003),
            ("a", 8): steady(0.004, 0.060),
            ("b", 8): steady(0.0040001, 0.004)[::-1],  # not in step with the replicates of `a`
        }
    )


def test_quantiles_are_those_of_the_iterations_without_warm_up(engines: Analysis) -> None:
    assert engines.inference is not None
    first = engines.inference.settings[0].engines[0]
    assert first.p50.median == pytest.approx(0.001, rel=0.01)
    assert first.p95 is not None and first.p95.median == pytest.approx(0.001, rel=0.02)
    assert first.p99 is not None and first.p99.median == pytest.approx(0.050, rel=0.01)
    assert first.p99.ends is not None  # from three trials


def test_engines_are_ranked_within_each_setting(engines: Analysis) -> None:
    assert engines.inference is not None
    one, eight = engines.inference.settings
    assert [(latency.factors["framework"], latency.standing) for latency in one.engines] == [
        ("a", "lowest"), ("b", "higher"),
    ]  # fmt: skip
    assert [latency.standing for latency in eight.engines] == ["lowest", "not told apart"]


def test_the_answer_gives_latency_then_throughput_then_the_engines(engines: Analysis) -> None:
    told = [str(sentence) for sentence in sentences(engines)]
    assert told[0].startswith("The lowest latency of a batch is that of framework a, batch_size 1: p50 1 ms (")
    assert ", p99 50 ms (" in told[0]
    assert told[1].startswith(
        "The highest throughput is 2 k samples/s with framework b, batch_size 8, at a p50 of 4 ms"
    )
    assert told[1].endswith("1 other configuration cannot be told from it.")
    assert told[2] == "With batch_size 1: a 1 ms, b 2 ms. By p99 b is lowest (3 ms against 50 ms)."
    assert told[3] == "With batch_size 8: b 4 ms, a 4 ms (cannot be told from the first)."


def test_too_few_iterations_have_no_p99_and_say_so(analysed: Analysed) -> None:
    analysis = analysed({("a", 1): steady(0.001, 0.002, 50), ("b", 1): steady(0.002, 0.003, 50)})
    assert analysis.inference is not None
    assert [one.p99 for one in analysis.inference.latencies] == [None, None]
    assert all(one.p95 is not None for one in analysis.inference.latencies)
    told = [str(sentence) for sentence in sentences(analysis)]
    assert any(
        text.startswith("p99 is not known everywhere: it takes 100 iterations a trial, and there are 50")
        for text in told
    )


def test_engines_of_many_settings_are_judged_at_once(
    inferences: Callable[..., tuple[pd.DataFrame, pa.Table]],
) -> None:
    rng, studies, false = np.random.default_rng(2), 60, 0
    for _ in range(studies):
        equal = {
            (engine, batch): [[float(0.01 * np.exp(0.02 * rng.standard_normal()))] for _ in range(8)]
            for engine in "ab"
            for batch in range(1, 16)
        }
        trials, iterations = inferences(equal)
        found = inference(trials, FACTORS, iterations)
        assert found is not None
        false += any(latency.standing == "higher" for latency in found.latencies)
    assert false <= 7  # 5 %, and what chance may add to that; judged setting by setting it were 20


@pytest.mark.parametrize("workers", [1, 2])
def test_a_single_trial_of_several_ranks_has_no_interval_of_its_latency(
    inferences: Callable[..., tuple[pd.DataFrame, pa.Table]], workers: int
) -> None:
    trials, iterations = inferences({("a", 1): [times(0.01, 0.02)]})
    found = inference(trials.assign(workers=workers, t_iter_low=0.0099, t_iter_high=0.0101), FACTORS, iterations)
    assert found is not None and (found.lowest.p50.ends is None) == (workers > 1)


def test_engines_in_step_with_each_other_have_the_verdict_of_their_pair(analysed: Analysed) -> None:
    """Replicates differ by 10 %, the engines by 5 % in each: one question, asked as latency and as throughput."""
    latencies = [[time] * 20 for time in (0.001, 0.0011, 0.0012)]
    slower = [[times[0] * by] * 20 for times, by in zip(latencies, (1.050, 1.049, 1.051), strict=True)]
    analysis = analysed({("a", 1): latencies, ("b", 1): slower})
    assert analysis.inference is not None
    assert [pair.real for pair in analysis.frameworks] == [True]
    assert [latency.standing for latency in analysis.inference.latencies] == ["lowest", "higher"]
    assert any("By p50: a 1.1 ms, b 1.15 ms." in str(sentence) for sentence in sentences(analysis))

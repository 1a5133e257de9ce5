"""Time to accuracy: who reached the target, how soon, who did not; never praise for those that did not."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pyarrow as pa
import pytest

from steplab.analysis.sentences import sentences
from steplab.analysis.study import Analysis, analyse
from steplab.analysis.training_sentences import not_compared

Analysed = Callable[..., Analysis]
FACTORS = ["framework", "batch_size"]
SLOW = (0.5, 0.7, 0.8, 0.85)
QUICK = (0.6, 0.95)


@pytest.fixture
def analysed(trainings: Callable[..., tuple[pd.DataFrame, pa.Table]]) -> Analysed:
    """The analysis of runs by batch size."""

    def analysis(runs: dict[int, list[tuple[float, tuple[float, ...]]]], target: float | None = 0.9) -> Analysis:
        trials, epochs = trainings(runs, target)
        return analyse(trials, FACTORS, epochs=epochs)

    return analysis


def words(analysis: Analysis) -> list[str]:
    return [str(sentence) for sentence in sentences(analysis)]


@pytest.fixture
def three(analysed: Analysed) -> Analysis:
    """Batch 8 is there after 2 epochs of 1 s, 32 after 3 of 2 s, 512 never."""
    return analysed(
        {
            8: [(1.00, QUICK), (1.01, QUICK), (0.99, QUICK)],
            32: [(2.00, (*SLOW[:2], 0.91)), (2.01, (*SLOW[:2], 0.91)), (1.99, (*SLOW[:2], 0.91))],
            512: [(0.1, SLOW), (0.11, SLOW), (0.1, SLOW)],
        }
    )


def test_configurations_are_ranked_by_the_time_to_the_target(three: Analysis) -> None:
    assert three.training is not None
    first, second, last = three.training.configurations
    assert [one.standing for one in (first, second, last)] == ["soonest", "later", "not reached"]
    assert first.seconds is not None and first.epochs is not None
    assert (first.epochs.median, first.seconds.median) == (2, pytest.approx(2.0))
    assert first.seconds.ends is not None and first.seconds.ends[0] < 2.0 < first.seconds.ends[1]
    assert (last.reached, last.seconds, last.best.median) == (0, None, 0.85)


def test_the_answer_begins_with_the_target_and_names_who_missed_it_by_how_much(three: Analysis) -> None:
    first, missed, *_ = words(three)
    assert first.startswith("The target accuracy of 90 % was reached soonest with batch_size 8: after 2 epochs and 2 s")
    assert "Later: batch_size 32 (6 s)." in first
    assert missed == "Never reached it in 4 epochs: batch_size 512 (best 85 %, 5 points short)."


def test_a_configuration_that_never_reached_the_target_is_not_praised_for_its_throughput(three: Analysis) -> None:
    assert three.groups[0].factors["batch_size"] == 512  # which has the highest throughput
    (throughput,) = [text for text in words(three) if "throughput" in text]
    assert "the highest throughput is 3.2 k samples/s with batch_size 32" in throughput
    assert throughput.endswith("batch_size 512 does more samples/s and never reached it.")


def test_runs_that_missed_the_target_are_counted_and_no_interval_is_made_up(analysed: Analysed) -> None:
    analysis = analysed({8: [(1.0, QUICK), (1.1, QUICK), (1.0, SLOW)], 32: [(1.0, QUICK), (1.0, SLOW), (1.0, SLOW)]})
    assert analysis.training is not None
    two, one = analysis.training.configurations
    assert (two.reached, two.runs, two.standing) == (2, 3, "some runs")
    assert two.seconds is not None and (two.seconds.median, two.seconds.ends) == (pytest.approx(2.2), None)
    assert (one.reached, one.seconds) == (1, None)
    told = words(analysis)
    assert told[0] == "No configuration reached the target accuracy of 90 % in all of its runs."
    assert "batch_size 8 (2 of 3 runs, the median run after 2.2 s); batch_size 32 (1 of 3 runs)" in told[1]


def test_times_within_the_noise_cannot_be_told_apart(analysed: Analysed) -> None:
    analysis = analysed(
        {8: [(1.0, QUICK), (1.3, QUICK), (0.8, QUICK)], 32: [(1.1, QUICK), (0.9, QUICK), (1.25, QUICK)]}
    )
    assert analysis.training is not None
    assert [one.standing for one in analysis.training.configurations] == ["soonest", "not told apart"]
    assert "Cannot be told from it: batch_size 32." in words(analysis)[0]


def test_nobody_at_the_target_means_no_throughput_is_praised(analysed: Analysed) -> None:
    told = words(analysed({8: [(1.0, SLOW)], 32: [(1.0, (0.2, 0.3))]}))
    assert told[0].startswith(
        "No configuration reached the target accuracy of 90 %: nearest came batch_size 8, best 85 %"
    )
    assert not any("highest throughput" in text for text in told)


def test_a_single_run_has_no_interval_and_is_told_from_nothing(analysed: Analysed) -> None:
    analysis = analysed({8: [(1.0, QUICK)], 32: [(5.0, QUICK)]})
    assert analysis.training is not None
    assert [one.standing for one in analysis.training.configurations] == ["soonest", "not told apart"]
    assert "(a single run, so no interval)" in words(analysis)[0]


def test_without_a_target_the_best_accuracy_is_told(analysed: Analysed) -> None:
    told = words(analysed({8: [(1.0, QUICK)], 32: [(1.0, SLOW)]}, target=None))
    assert "The highest validation accuracy is 95 % with batch_size 8, after 2 epochs and 2 s" in told[0]


def test_curves_hold_epochs_seconds_and_accuracies(three: Analysis) -> None:
    assert three.training is not None
    curve = next(one for one in three.training.curves if one.factors["batch_size"] == 8)
    assert [(point.epoch, point.seconds, point.accuracy) for point in curve.points] == [(1, 1.0, 0.6), (2, 2.0, 0.95)]


@pytest.fixture
def by_framework(trainings: Callable[..., tuple[pd.DataFrame, pa.Table]]) -> Callable[..., Analysis]:
    """The analysis of two frameworks with the same batch size, of each the seconds of runs to the target, or None."""

    def analysis(**runs: tuple[float | None, ...]) -> Analysis:
        epochs_of = {
            at: [(100.0, SLOW) if time is None else (time / 2, QUICK) for time in own]
            for at, own in enumerate(runs.values(), 1)
        }
        trials, epochs = trainings(epochs_of)
        trials["framework"] = trials["batch_size"].map(dict(enumerate(runs, 1)))
        trials["time_to_target_s"] = [time for own in runs.values() for time in own]
        return analyse(trials.assign(batch_size=32), FACTORS, epochs=epochs)

    return analysis


def test_frameworks_in_step_with_each_other_have_the_verdict_of_their_pair(by_framework: Analysed) -> None:
    analysis = by_framework(a=(10.0, 11.0, 12.0), b=(10.50, 11.539, 12.612))
    assert analysis.training is not None
    (pair,) = [pair for pair in analysis.frameworks if pair.measure == "time to accuracy"]
    assert pair.real
    assert [one.standing for one in analysis.training.configurations] == ["soonest", "later"]
    assert "Later: framework b (11.5 s)." in words(analysis)[0]


def test_a_framework_of_which_a_run_missed_the_target_is_not_compared_by_its_time(by_framework: Analysed) -> None:
    analysis = by_framework(a=(10.0, 12.0, None), b=(11.0, 11.5, 12.0))
    assert not [pair for pair in analysis.frameworks if pair.measure == "time to accuracy"]
    left_out = "Frameworks in pairs are compared by time to accuracy only where all runs reached the target, not with "
    assert analysis.training is not None
    assert not_compared(analysis.training, analysis.varied) == f"{left_out}framework a."


def test_the_verdict_counts_where_one_of_two_shared_configurations_is_left_out(
    trainings: Callable[..., tuple[pd.DataFrame, pa.Table]],
) -> None:
    times = {
        ("a", 8): (10.0, 11.0, 12.0), ("b", 8): (10.50, 11.539, 12.612), ("a", 16): (20.0, 21.0, 22.0),
        ("b", 16): (20.0, 21.0, None),
    }  # fmt: skip
    epochs_of = {
        at: [(100.0, SLOW) if time is None else (time / 2, QUICK) for time in own]
        for at, own in enumerate(times.values(), 1)
    }
    trials, epochs = trainings(epochs_of)
    cells = trials["batch_size"].map(dict(enumerate(times, 1)))
    trials = trials.assign(framework=[name for name, _ in cells], batch_size=[size for _, size in cells])
    trials["time_to_target_s"] = [time for own in times.values() for time in own]
    analysis = analyse(trials, FACTORS, epochs=epochs)
    (pair,) = [pair for pair in analysis.frameworks if pair.measure == "time to accuracy"]
    assert pair.real and pair.about is not None and pair.about["batch_size"] == 8
    assert analysis.training is not None
    standings = {str(one.factors): one.standing for one in analysis.training.configurations}
    (standing,) = [own for levels, own in standings.items() if "'b'" in levels and "8" in levels]
    assert standing == "later"

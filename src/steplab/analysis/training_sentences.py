"""What trainings reached, in sentences: time to accuracy first, throughput second."""

from __future__ import annotations

from collections.abc import Sequence

from steplab.analysis.labels import label, listed, percent
from steplab.analysis.study import Analysis
from steplab.analysis.summary import Group
from steplab.analysis.training import TimeToAccuracy, Training
from steplab.core.units import count, seconds, span


def training_sentences(analysis: Analysis, training: Training) -> list[str]:
    """Who reached the target, how soon, and who did not; without a target, the best accuracy."""
    names = analysis.varied
    if training.target is None:
        return [_without_target(training, names)]
    first = _soonest(training, names) if training.standing("soonest") else _none_surely(training, names)
    return [text for text in (first, _some(training, names), _short(training, names)) if text]


def praised(analysis: Analysis) -> list[Group]:
    """The configurations whose throughput may be praised, the highest first: those that reached the target at all."""
    if analysis.training is None:
        return analysis.groups
    return [group for group in analysis.groups if analysis.training.did_reach(group.factors)]


def throughput_sentence(analysis: Analysis, training: Training) -> str:
    """The throughput, of configurations that reached the target only."""
    there = praised(analysis)
    if not there:
        return "Throughput is not compared: it is of no use where the target accuracy was not reached."
    best, top = there[0], analysis.groups[0]
    if best.throughput is None:
        return ""
    among = "The" if training.target is None else "Of those that reached it, the"
    text = f"{among} highest throughput is {count(best.throughput).strip()} samples/s with "
    text += f"{label(best.factors, analysis.varied)}: a step takes {seconds(best.t_iter.median)}"
    text += f" ({span(*best.t_iter.ends)})." if best.t_iter.ends else "."
    if top is not best:
        alike = any(group is best for group in analysis.fastest)
        more = "cannot be told from that by its throughput" if alike else "does more samples/s"
        text += f" {label(top.factors, analysis.varied)} {more} and never reached it."
    return text


def _soonest(training: Training, names: Sequence[str]) -> str:
    (best,) = training.standing("soonest")
    text = f"The target accuracy of {percent(training.target or 0.0)} was reached soonest with "
    text += f"{label(best.factors, names)}: after {_when(best)}."
    alike = [label(configuration.factors, names) for configuration in training.standing("not told apart")]
    if alike:
        text += f" Cannot be told from it: {listed(alike)}."
    later = [
        f"{label(configuration.factors, names)} ({_seconds(configuration)})"
        for configuration in training.standing("later")
    ]
    return text + (f" Later: {listed(later)}." if later else "")


def _none_surely(training: Training, names: Sequence[str]) -> str:
    """No configuration reached it with all of its runs."""
    target = percent(training.target or 0.0)
    if any(configuration.reached for configuration in training.configurations):
        return f"No configuration reached the target accuracy of {target} in all of its runs."
    best = training.configurations[0]
    text = f"No configuration reached the target accuracy of {target}: nearest came {label(best.factors, names)}, "
    return text + f"{_nearness(best, training)} after {_epochs(best.trained_epochs)} ({seconds(best.trained_s)})."


def _some(training: Training, names: Sequence[str]) -> str:
    """Those of which some runs reached it and others did not."""
    some = [_partly(configuration, names) for configuration in training.standing("some runs")]
    return f"Only some runs reached it: {listed(some)}." if some else ""


def _partly(configuration: TimeToAccuracy, names: Sequence[str]) -> str:
    when = f", the median run after {_seconds(configuration)}" if configuration.seconds else ""
    return f"{label(configuration.factors, names)} ({configuration.reached} of {configuration.runs} runs{when})"


def _short(training: Training, names: Sequence[str]) -> str:
    """Those that never reached it, and how near they came."""
    short = training.standing("not reached")
    if not any(configuration.reached for configuration in training.configurations):
        short = short[1:]  # the nearest one was named before
    if not short:
        return ""
    epochs = max(configuration.trained_epochs for configuration in short)
    named = [f"{label(configuration.factors, names)} ({_nearness(configuration, training)})" for configuration in short]
    return f"Never reached it in {_epochs(epochs)}: {listed(named)}."


def not_compared(training: Training, names: Sequence[str]) -> str:
    """Which configurations the frameworks' pairs leave out, as not all of their runs have a time to accuracy."""
    frameworks = {configuration.factors.get("framework") for configuration in training.configurations}
    left_out = [label(short.factors, names) for short in training.standing("some runs", "not reached")]
    if training.target is None or len(frameworks) < 2 or not left_out:
        return ""
    only = "Frameworks in pairs are compared by time to accuracy only where all runs reached the target"
    return f"{only}, not with {listed(left_out)}."


def _epochs(number: int) -> str:
    return f"{number} epoch{'' if number == 1 else 's'}"


def _nearness(configuration: TimeToAccuracy, training: Training) -> str:
    short = ((training.target or 0.0) - configuration.best.high) * 100
    return f"best {percent(configuration.best.high)}, {short:.2g} points short"


def _when(configuration: TimeToAccuracy) -> str:
    assert configuration.epochs is not None and configuration.seconds is not None
    low, high = configuration.epochs.low, configuration.epochs.high
    epochs = (
        f"{configuration.epochs.median:g}" if low == high else f"{configuration.epochs.median:g} ({low:g} to {high:g})"
    )
    doubt = f"{span(*configuration.seconds.ends)}; " if configuration.seconds.ends else ""
    runs = f"all {configuration.runs} runs" if configuration.runs > 1 else "a single run, so no interval"
    unit = "epoch" if configuration.epochs.high == 1 else "epochs"
    return f"{epochs} {unit} and {seconds(configuration.seconds.median)} of training ({doubt}{runs})"


def _seconds(configuration: TimeToAccuracy) -> str:
    return seconds(configuration.seconds.median) if configuration.seconds else "-"


def _without_target(training: Training, names: Sequence[str]) -> str:
    curve = max(training.curves, key=lambda curve: curve.best.accuracy)
    where = f"{_epochs(curve.best.epoch)} and {seconds(curve.best.seconds)} of training"
    text = "No target_accuracy was set, so nothing was to be reached. The highest validation accuracy is "
    return text + f"{percent(curve.best.accuracy)} with {label(curve.factors, names)}, after {where}."

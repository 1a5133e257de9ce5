"""Latencies of inference in sentences: the lowest, the engines of each setting in their order, the throughput."""

from __future__ import annotations

from collections.abc import Sequence

from steplab.analysis.labels import NAMED, label
from steplab.analysis.latency import ENGINE, QUANTILES, Inference, Latency, Setting, fewest
from steplab.analysis.statistics.intervals import Interval
from steplab.core.units import count, seconds, span


def latency_sentences(inference: Inference, varied: Sequence[str]) -> list[str]:
    """The answer of a study of kind infer."""
    several = [setting for setting in inference.settings if len(setting.engines) > 1]
    told = [_lowest(inference, varied), _throughput(inference, varied)]
    told += [_order(setting, varied) for setting in several[:NAMED]]
    if len(several) > NAMED:
        told.append(f"The order of the engines in {len(several) - NAMED} more settings is in the section latency.")
    return [text for text in (*told, _too_few(inference)) if text]


def _lowest(inference: Inference, varied: Sequence[str]) -> str:
    best = inference.lowest
    tails = [f"{name} {_time(value)}" for name, value in (("p95", best.p95), ("p99", best.p99)) if value]
    text = f"The lowest latency of a batch is {_time(best.p50)} (p50) with {label(best.factors, varied)}"
    return text + (f"; {', '.join(tails)}." if tails else ".")


def _throughput(inference: Inference, varied: Sequence[str]) -> str:
    best = inference.busiest
    if best is None or best.throughput is None:
        return ""
    if best is inference.lowest:
        return f"It has the highest throughput, too: {count(best.throughput).strip()} samples/s."
    text = f"The highest throughput is {count(best.throughput).strip()} samples/s with {label(best.factors, varied)}, "
    return text + f"at a latency of {_time(best.p50)} (p50)."


def _order(setting: Setting, varied: Sequence[str]) -> str:
    """The engines of a setting by their median latency, and whether the tail changes the winner."""
    own = [name for name in varied if name not in setting.factors]
    where = ", ".join(f"{name} {setting.factors[name]}" for name in varied if name in setting.factors)
    parts = [f"{_engine(one, own)} {seconds(one.p50.median)}{_doubt(one)}" for one in setting.engines]
    text = f"{f'With {where}' if where else 'By p50'}: {', '.join(parts)}."
    return text + _tail(setting, own)


def _doubt(one: Latency) -> str:
    return " (cannot be told from the first)" if one.standing == "not told apart" else ""


def _tail(setting: Setting, own: Sequence[str]) -> str:
    known = [(one.p99.median, one) for one in setting.engines if one.p99 is not None]
    if len(known) < len(setting.engines):
        return ""
    best = min(known, key=lambda pair: pair[0])[1]
    first = setting.engines[0]
    if best is first or first.p99 is None or best.p99 is None:
        return ""
    p99 = f"{seconds(best.p99.median)} against {seconds(first.p99.median)}"
    return f" By p99 {_engine(best, own)} is lowest ({p99})."


def _engine(one: Latency, own: Sequence[str]) -> str:
    """An engine by its name and by the factors that only some engines have."""
    rest = [f"{name} {one.factors[name]}" for name in own if name != ENGINE and name in one.factors]
    return " ".join([str(one.factors.get(ENGINE, "the engine")), *rest])


def _too_few(inference: Inference) -> str:
    """Which quantiles are not known, and how many iterations they take."""
    least = min(one.iterations for one in inference.latencies)
    missing = [quantile for quantile in QUANTILES[1:] if least < fewest(quantile)]
    if not missing:
        return ""
    names = " and ".join(f"p{quantile * 100:.0f}" for quantile in missing)
    takes = " and ".join(str(fewest(quantile)) for quantile in missing)
    need = f"{'it takes' if len(missing) == 1 else 'they take'} {takes} iterations a trial, and there are {least}"
    verb = "is" if len(missing) == 1 else "are"
    return f"{names} {verb} not known everywhere: {need} (raise iterations in [measure])."


def _time(interval: Interval) -> str:
    return f"{seconds(interval.median)}{f' ({span(*interval.ends)})' if interval.ends else ''}"

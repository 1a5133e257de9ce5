"""Latencies of inference in sentences: the lowest, the engines of each setting in their order, the throughput."""

from __future__ import annotations

from collections.abc import Sequence

from steplab.analysis.labels import NAMED, label
from steplab.analysis.latency import ENGINE, QUANTILES, Inference, Latency, Setting, fewest
from steplab.analysis.statistics.all_pairs import surely_longer
from steplab.analysis.statistics.intervals import Interval
from steplab.analysis.study import Analysis
from steplab.core.units import count, seconds, span


def latency_sentences(analysis: Analysis, inference: Inference) -> list[str]:
    """The answer of a study of kind infer."""
    varied = analysis.varied
    several = [setting for setting in inference.settings if len(setting.engines) > 1]
    told = [_lowest(inference, varied), _throughput(analysis, inference)]
    told += [_order(setting, varied, inference.pairs) for setting in several[:NAMED]]
    if len(several) > NAMED:
        told.append(f"The order of the engines in {len(several) - NAMED} more settings is in the section latency.")
    return [text for text in (*told, _too_few(inference)) if text]


def _lowest(inference: Inference, varied: Sequence[str]) -> str:
    best = inference.lowest
    known = [(name, value) for name, value in (("p50", best.p50), ("p95", best.p95), ("p99", best.p99)) if value]
    text = ", ".join(f"{name} {_time(value)}" for name, value in known)
    return f"The lowest latency of a batch is that of {label(best.factors, varied)}: {text}."


def _throughput(analysis: Analysis, inference: Inference) -> str:
    """The highest throughput and what it costs in latency; the rule is that of all studies."""
    best, *equals = analysis.fastest
    if best.throughput is None:
        return ""
    own = next(latency for latency in inference.latencies if latency.factors == best.factors)
    text = f"The highest throughput is {count(best.throughput).strip()} samples/s with "
    text += f"{label(best.factors, analysis.varied)}, at a p50 of {_time(own.p50)}."
    if equals:
        text += f" {len(equals)} other configuration{'s' if len(equals) > 1 else ''} cannot be told from it."
    return text


def _order(setting: Setting, varied: Sequence[str], pairs: int) -> str:
    """The engines of a setting by their median latency, and whether the tail changes the winner."""
    own = [name for name in varied if name not in setting.factors]
    where = ", ".join(f"{name} {setting.factors[name]}" for name in varied if name in setting.factors)
    parts = [f"{_engine(engine, own)} {seconds(engine.p50.median)}{_doubt(engine)}" for engine in setting.engines]
    text = f"{f'With {where}' if where else 'By p50'}: {', '.join(parts)}."
    return text + _tail(setting, own, pairs)


def _doubt(latency: Latency) -> str:
    return " (cannot be told from the first)" if latency.standing == "not told apart" else ""


def _tail(setting: Setting, own: Sequence[str], pairs: int) -> str:
    """Who is lowest by p99, if that is surely another engine than by p50."""
    first, known = setting.engines[0], [engine.p99 for engine in setting.engines if engine.p99 is not None]
    if first.p99 is None or len(known) < len(setting.engines):
        return ""
    if not surely_longer(known, pairs)[0]:
        return ""
    at = min(range(len(known)), key=lambda at: known[at].median)
    p99 = f"{seconds(known[at].median)} against {seconds(first.p99.median)}"
    return f" By p99 {_engine(setting.engines[at], own)} is lowest ({p99})."


def _engine(latency: Latency, own: Sequence[str]) -> str:
    """An engine by its name and by the factors that only some engines have."""
    rest = [f"{name} {latency.factors[name]}" for name in own if name != ENGINE and name in latency.factors]
    return " ".join([str(latency.factors.get(ENGINE, "the engine")), *rest])


def _too_few(inference: Inference) -> str:
    """Which quantiles are not known, and how many iterations they take."""
    least = min(latency.iterations for latency in inference.latencies)
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

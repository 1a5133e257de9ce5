"""The tables that answer the question a study asks: time to accuracy, latencies, frameworks in pairs."""

from __future__ import annotations

from collections.abc import Sequence

from steplab.analysis.frameworks import Comparison
from steplab.analysis.ranking import Place, ranking
from steplab.analysis.statistics.intervals import Interval
from steplab.report.charts.frameworks import overall
from steplab.report.charts.latency import QUANTILES, quantile
from steplab.report.data import ReportData
from steplab.report.table import Cell, Column, PageTable, cell, factor_columns, percent

STANDINGS = {
    "soonest": "the soonest", "not told apart": "cannot be told from the soonest", "later": "later",
    "some runs": "reached in some runs only", "not reached": "not reached",
}  # fmt: skip
LATENCIES = {"lowest": "the lowest", "not told apart": "cannot be told from the lowest", "higher": "higher"}


def answer_tables(data: ReportData) -> list[PageTable]:
    """Those that the study has data for."""
    return [
        *time_to_accuracy(data), *latencies(data), *precision(data), *frameworks(data), *framework_pairs(data)
    ]  # fmt: skip


def time_to_accuracy(data: ReportData) -> list[PageTable]:
    """One row for each configuration that was trained: who reached the target, and when."""
    training, varied = data.analysis.training, data.analysis.varied
    if training is None:
        return []
    columns = (
        *factor_columns(data, varied), Column("verdict", "target", "text"), Column("reached", "runs that reached it"),
        Column("runs", "runs"), *_ends("time_to_target_s", "time to target", "s", 1.0),
        Column("epochs", "epochs to target"), Column("epochs_least", "least"), Column("epochs_most", "most"),
        percent("best_accuracy", "best accuracy"), Column("trained_s", "trained", unit="s"),
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [
            *(cell(config.factors.get(name)) for name in varied),
            STANDINGS[config.standing], config.reached, config.runs, *_cells(config.seconds),
            *([None] * 3 if config.epochs is None else
              [cell(config.epochs.median), cell(config.epochs.low), cell(config.epochs.high)]),
            cell(config.best.median), cell(config.trained_s),
        ]
        for config in training.configurations
    ]  # fmt: skip
    target = "" if training.target is None else f" of {100 * training.target:.3g} %"
    return [PageTable("time-to-accuracy", f"Time to the target accuracy{target}", columns, rows)]


def latencies(data: ReportData) -> list[PageTable]:
    """One row for each configuration of an inference: p50, p95, p99 and the throughput."""
    inference, varied = data.analysis.inference, data.analysis.varied
    if inference is None:
        return []
    columns = (
        *factor_columns(data, varied), Column("standing", "p50 in its setting", "text"),
        *(column for name in QUANTILES for column in _ends(name, name, "ms", 1e3)),
        Column("throughput", "throughput", unit="samples/s"), Column("trials", "trials"),
        Column("iterations", "iterations of a trial"),
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [
            *(cell(latency.factors.get(name)) for name in varied), LATENCIES[latency.standing],
            *(value for name in QUANTILES for value in _cells(quantile(latency, name))),
            cell(latency.throughput), latency.trials, latency.iterations,
        ]
        for latency in inference.latencies
    ]  # fmt: skip
    return [PageTable("latencies", "Latency and throughput", columns, rows)]


def precision(data: ReportData) -> list[PageTable]:
    """One row for each configuration in another precision: against float32, and what of both roofs is reached."""
    gains = data.analysis.precision
    varied = [name for name in data.analysis.varied if name != "precision"]
    if not gains:
        return []
    columns = (
        *factor_columns(data, varied), Column("precision", "precision", "text"), Column("verdict", "verdict", "text"),
        Column("ratio", "time / float32's"), Column("low", "from"), Column("high", "to"),
        Column("roof_gain", "roof / float32's"), percent("usual", "of the float32 roof"),
        percent("reached", "of its own roof"),
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [
            *(cell("all" if gain.factors is None else gain.factors.get(name)) for name in varied),
            gain.precision, gain.verdict, cell(gain.ratio),
            cell(gain.low), cell(gain.high), cell(gain.roof_gain),
            None if gain.usual is None else cell(gain.usual.share),
            None if gain.reached is None else cell(gain.reached.share),
        ]
        for gain in gains
    ]  # fmt: skip
    return [PageTable("precision", "Other precisions than float32", columns, rows)]


def frameworks(data: ReportData) -> list[PageTable]:
    """One row for each framework, the best first: whom it beats, and whom it cannot be told from."""
    pairs = overall(data)
    ranked = ranking(pairs, pairs[0].measure) if pairs else None
    if ranked is None:
        return []
    columns = (
        Column("framework", "framework", "text"), Column("ratio", f"{pairs[0].measure} against the first"),
        Column("beats", "better than", "text"), Column("alike", "cannot be told apart from", "text"),
    )  # fmt: skip
    rows = [_place(place, pairs) for place in ranked.places]
    return [PageTable("frameworks", "Frameworks in order", columns, rows)]


def _place(place: Place, pairs: Sequence[Comparison]) -> list[Cell]:
    """A framework, seen from its own pairs."""
    own = [pair for pair in pairs if place.framework in (pair.first, pair.second)]
    others = {(pair.second if pair.first == place.framework else pair.first): pair for pair in own}
    beaten = [name for name, pair in others.items() if pair.better == place.framework]
    alike = [name for name, pair in others.items() if not pair.real]
    return [place.framework, cell(place.ratio), ", ".join(beaten) or None, ", ".join(alike) or None]


def framework_pairs(data: ReportData) -> list[PageTable]:
    """One row for every two frameworks and measure, over all configurations that they share."""
    pairs = [pair for pair in data.analysis.frameworks if pair.factors is None]
    if not pairs:
        return []
    columns = (
        Column("measure", "measure", "text"), Column("first", "framework", "text"), Column("second", "against", "text"),
        Column("ratio", "ratio"), Column("low", "from"), Column("high", "to"), Column("pairs", "pairs of trials"),
        Column("verdict", "verdict", "text"),
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [
            pair.measure, pair.first, pair.second, cell(pair.ratio), cell(pair.low), cell(pair.high), pair.pairs,
            f"{pair.better} is better" if pair.real else "cannot be told apart",
        ]
        for pair in pairs
    ]  # fmt: skip
    return [PageTable("framework-pairs", "Frameworks in pairs", columns, rows)]


def _ends(key: str, title: str, unit: str, scale: float) -> list[Column]:
    """A median and the ends of its interval."""
    return [
        Column(key, title, unit=unit, scale=scale),
        Column(f"{key}_low", f"{title}, from", unit=unit, scale=scale),
        Column(f"{key}_high", f"{title}, to", unit=unit, scale=scale),
    ]


def _cells(interval: Interval | None) -> list[Cell]:
    if interval is None:
        return [None, None, None]
    low, high = interval.ends or (None, None)
    return [cell(interval.median), cell(low), cell(high)]

"""The tables of the page as data: what a column is called, its unit, and plain rows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from steplab.core.trial import UNSUPPORTED, Level, is_failure
from steplab.report.data import ReportData
from steplab_worker.phases import EXCHANGE_PARTS, ITERATION, SHARES

Cell = str | int | float | None
DIGITS = 9  # significant digits that are kept: no clock is better
TIMES = (ITERATION, *SHARES, *EXCHANGE_PARTS, "t_comm", "t_hidden", "t_exposed")


@dataclass(frozen=True)
class Column:
    """A column: its key in CSV files, its title and unit on the page, and by what the page multiplies it."""

    key: str
    title: str
    kind: Literal["text", "number"] = "number"
    unit: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class PageTable:
    """A table of the page."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: list[list[Cell]]

    def document(self) -> dict[str, Any]:
        """The table as plain data."""
        return {"id": self.id, "title": self.title, "columns": [asdict(c) for c in self.columns], "rows": self.rows}


def tables(data: ReportData) -> list[PageTable]:
    """All tables that have rows."""
    every = [configurations(data), anova(data), models(data), trials(data), failures(data), unsupported(data)]
    return [table for table in every if table.rows]


def configurations(data: ReportData) -> PageTable:
    """One row for each configuration: median, interval, throughput, speed-up, efficiency, imbalance."""
    varied, groups = data.analysis.varied, data.analysis.groups
    have = [phase for phase in SHARES if any(phase in group.phases for group in groups)]
    columns = (
        *(_factor(data, name) for name in varied), Column("n", "trials"), _time("t_iter"),
        _time("t_iter_low"), _time("t_iter_high"), Column("throughput", "throughput", unit="samples/s"),
        Column("speedup", "speed-up"), Column("efficiency", "efficiency", unit="%", scale=100.0), Column("lif", "LIF"),
        Column("observer_cost", "observer's cost", unit="%", scale=100.0), *(_time(phase) for phase in have),
    )  # fmt: skip
    rows = [
        [
            *(cell(group.factors.get(name)) for name in varied), group.t_iter.n, cell(group.t_iter.median),
            cell(group.t_iter.low), cell(group.t_iter.high), cell(group.throughput),
            cell(group.speedup.value if group.speedup else None), cell(group.efficiency), cell(group.lif),
            cell(group.observer_cost), *(cell(group.phases.get(phase)) for phase in have),
        ]
        for group in groups
    ]  # fmt: skip
    return PageTable("configurations", "All configurations", columns, rows)


def trials(data: ReportData) -> PageTable:
    """One row for each trial."""
    frame = data.trials
    wanted = ("trial", "replicate", "status", *data.analysis.varied)
    numbers = (*TIMES, "throughput", "lif", "spread", "drift", "iterations", "memory_bytes", "train_s",
               "best_validation_accuracy", "time_to_target_s")  # fmt: skip
    texts = ("verdict", "doubts", "host", "started")
    numeric = [name for name in numbers if name in frame and frame[name].notna().any()]
    worded = [name for name in texts if name in frame and (frame[name].fillna("") != "").any()]
    columns = (
        Column("trial", "trial", "text"), Column("replicate", "replicate"), Column("status", "status", "text"),
        *(_factor(data, name) for name in data.analysis.varied), *(_number(name) for name in numeric),
        *(Column(name, name, "text") for name in worded),
    )  # fmt: skip
    shown = [name for name in (*wanted, *numeric, *worded) if name in frame]
    rows = [[cell(value) for value in row] for row in frame[shown].itertuples(index=False)] if len(frame) else []
    return PageTable("trials", "All trials", columns, rows)


def anova(data: ReportData) -> PageTable:
    """One row for each term of the analysis of variance."""
    columns = (
        Column("term", "term", "text"), Column("df", "degrees of freedom"),
        Column("share", "share of the variation", unit="%", scale=100.0), Column("f", "F"), Column("p", "p"),
        Column("verdict", "verdict", "text"),
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [row.term, row.df, cell(row.share), cell(row.f), cell(row.p), "real" if row.differs else ""]
        for row in data.analysis.designed.anova
    ]
    return PageTable("anova", "Analysis of variance", columns, rows)


def models(data: ReportData) -> PageTable:
    """One row for each model, the least error first."""
    columns = (
        Column("model", "model", "text"), Column("mape", "mean error", unit="%"), Column("r2", "R²"),
        Column("coverage", "in its 90 % interval", unit="%", scale=100.0), Column("seconds", "fitted in", unit="s"),
        Column("formula", "formula", "text"), Column("reason", "remark", "text"),
    )  # fmt: skip
    rows = [
        [
            judged.name,
            cell(judged.mape),
            cell(judged.r2),
            cell(judged.coverage),
            round(judged.seconds, 2),
            _short(judged.formula),
            judged.reason,
        ]
        for judged in data.models.judged
    ]
    return PageTable("models", f"Models, judged on {data.models.how}", columns, rows)


def failures(data: ReportData) -> PageTable:
    """One row for each trial that failed."""
    keys = ("trial", "status", "reason", "config", "log_tail")
    titles = ("trial", "status", "reason", "configuration", "end of the log")
    columns = tuple(Column(key, title, "text") for key, title in zip(keys, titles, strict=True))
    rows: list[list[Cell]] = [
        [trial.trial, trial.status, trial.reason, trial.config, trial.log_tail]
        for trial in data.unmeasured
        if is_failure(trial.status)
    ]
    return PageTable("failed", "Trials that failed", columns, rows)


def unsupported(data: ReportData) -> PageTable:
    """One row for each trial that its framework does not support."""
    titles = {"trial": "trial", "reason": "reason", "config": "configuration"}
    columns = tuple(Column(key, title, "text") for key, title in titles.items())
    rows: list[list[Cell]] = [
        [trial.trial, trial.reason, trial.config] for trial in data.unmeasured if trial.status == UNSUPPORTED
    ]
    return PageTable("unsupported", "Unsupported trials", columns, rows)


def _short(formula: str, most: int = 200) -> str:
    return formula if len(formula) <= most else formula[: most - 1] + "…"


def _time(name: str) -> Column:
    return Column(name, name, unit="ms", scale=1e3)


def _number(name: str) -> Column:
    if name.startswith("t_"):
        return _time(name)
    if name in ("spread", "drift", "best_validation_accuracy"):
        return Column(name, name, unit="%", scale=100.0)
    if name == "memory_bytes":
        return Column(name, "memory", unit="MiB", scale=2.0**-20)
    units = {"throughput": "samples/s", "train_s": "s", "time_to_target_s": "s"}
    return Column(name, name, unit=units.get(name, ""))


def _factor(data: ReportData, name: str) -> Column:
    values: list[Level] = [group.factors[name] for group in data.analysis.groups if name in group.factors]
    numeric = bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return Column(name, name, "number" if numeric else "text")


def cell(value: object) -> Cell:
    """A value as JSON can hold it; NaN is missing.

    >>> cell(float("nan")), cell(0.1234567890123), cell(True)
    (None, 0.123456789, 'True')
    """
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float):
        return float(f"{plain:.{DIGITS}g}") if math.isfinite(plain) else None
    if plain is None or (isinstance(plain, int) and not isinstance(plain, bool)):
        return plain
    return str(plain)

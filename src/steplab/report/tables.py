"""The tables of the page: those that answer the study's question, then configurations, models and trials."""

from __future__ import annotations

from steplab.analysis.effects.sentences import verdict
from steplab.analysis.utilisation import Utilisation
from steplab.core.trial import UNSUPPORTED, is_failure
from steplab.report.answer_tables import answer_tables
from steplab.report.data import ReportData
from steplab.report.table import Cell, Column, PageTable, cell, factor_columns, percent, time_column
from steplab_worker.phases import EXCHANGE_PARTS, ITERATION, SHARES

TIMES = (ITERATION, *SHARES, *EXCHANGE_PARTS, "t_comm", "t_hidden", "t_exposed")

# Of convolutions and matrix products; the utilisation is its share of the machine's measured roof.
UTILISATION = (
    Column("tokens_per_s", "tokens/s"), Column("tokens_per_joule", "tokens/J"),
    Column("energy_provenance", "energy by", "text"),
    Column("flops_per_s", "products", unit="GFLOP/s", scale=1e-9), percent("utilisation", "utilisation"),
    percent("utilisation_low", "utilisation, low"), percent("utilisation_high", "utilisation, high"),
)  # fmt: skip


def tables(data: ReportData) -> list[PageTable]:
    """All tables that have rows."""
    usual = [configurations(data), anova(data), models(data), trials(data), choices(data), failures(data),
             unsupported(data)]  # fmt: skip
    return [table.filled() for table in (*answer_tables(data), *usual) if table.rows]


def configurations(data: ReportData) -> PageTable:
    """One row for each configuration: median, interval, throughput, speed-up, efficiency, imbalance."""
    varied, groups = data.analysis.varied, data.analysis.groups
    have = [phase for phase in SHARES if any(phase in group.phases for group in groups)]
    columns = (
        *factor_columns(data, varied), Column("n", "trials"), time_column("t_iter"),
        time_column("t_iter_low"), time_column("t_iter_high"), Column("throughput", "throughput", unit="samples/s"),
        Column("speedup", "speed-up"), percent("efficiency", "efficiency"), Column("lif", "LIF"),
        percent("observer_cost", "observer's cost"), *UTILISATION, *(time_column(phase) for phase in have),
    )  # fmt: skip
    rows = [
        [
            *(cell(group.factors.get(name)) for name in varied), group.t_iter.n, cell(group.t_iter.median),
            cell(group.t_iter.low), cell(group.t_iter.high), cell(group.throughput),
            cell(group.speedup.value if group.speedup else None), cell(group.efficiency), cell(group.lif),
            cell(group.observer_cost), *_used(group.utilisation), *(cell(group.phases.get(phase)) for phase in have),
        ]
        for group in groups
    ]  # fmt: skip
    return PageTable("configurations", "All configurations", columns, rows)


def _used(used: Utilisation | None) -> list[Cell]:
    """The cells of a configuration's utilisation."""
    used = used or Utilisation()
    share = used.share
    rates = (used.tokens_per_s, used.tokens_per_joule, used.flops_per_s, share)
    ends = (None, None) if share is None else (share.low, share.high)
    tokens_per_s, tokens_per_joule, *rest = (cell(None if rate is None else rate.value) for rate in rates)
    return [tokens_per_s, tokens_per_joule, used.energy_provenance or None, *rest, *map(cell, ends)]


def trials(data: ReportData) -> PageTable:
    """One row for each trial."""
    frame = data.trials
    wanted = ("trial", "replicate", "status", *data.analysis.varied)
    numbers = (*TIMES, "throughput", "lif", "spread", "drift", "iterations", "memory_bytes", "compile_s", "train_s",
               "best_validation_accuracy", "time_to_target_s")  # fmt: skip
    texts = ("verdict", "doubts", "host", "started")
    numeric = [name for name in numbers if name in frame and frame[name].notna().any()]
    worded = [name for name in texts if name in frame and (frame[name].fillna("") != "").any()]
    columns = (
        Column("trial", "trial", "text"), Column("replicate", "replicate"), Column("status", "status", "text"),
        *factor_columns(data, data.analysis.varied), *(_number(name) for name in numeric),
        *(Column(name, name, "text") for name in worded),
    )  # fmt: skip
    shown = [name for name in (*wanted, *numeric, *worded) if name in frame]
    rows = [[cell(value) for value in row] for row in frame[shown].itertuples(index=False)] if len(frame) else []
    return PageTable("trials", "All trials", columns, rows)


def choices(data: ReportData) -> PageTable:
    """One row for each trial that an adaptive design chose, with the reason."""
    columns = (Column("batch", "batch"), Column("trial", "trial", "text"), Column("why", "why this trial", "text"))
    rows: list[list[Cell]] = [[choice.batch, choice.trial, choice.why] for choice in data.planned.choices]
    return PageTable("choices", "Why these trials", columns, rows)


def anova(data: ReportData) -> PageTable:
    """One row for each term of the analysis of variance."""
    columns = (
        Column("term", "term", "text"), Column("df", "degrees of freedom"),
        percent("share", "share of the variation"), Column("f", "F"), Column("verdict", "verdict", "text"),
    )  # fmt: skip
    experiment = data.analysis.designed
    rows: list[list[Cell]] = [
        [row.term, row.df, cell(row.share), cell(row.f), verdict(row, experiment)] for row in experiment.anova
    ]
    return PageTable("anova", "Analysis of variance", columns, rows)


def models(data: ReportData) -> PageTable:
    """One row for each model, the least error first."""
    columns = (
        Column("model", "model", "text"), Column("mape", "mean error", unit="%"), Column("r2", "R²"),
        percent("coverage", "in its 90 % interval"), Column("seconds", "fitted in", unit="s"),
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


def _number(name: str) -> Column:
    if name.startswith("t_"):
        return time_column(name)
    if name in ("spread", "drift", "best_validation_accuracy"):
        return percent(name, name)
    if name == "memory_bytes":
        return Column(name, "memory", unit="GB", scale=1e-9)
    units = {"throughput": "samples/s", "compile_s": "s", "train_s": "s", "time_to_target_s": "s"}
    return Column(name, name, unit=units.get(name, ""))

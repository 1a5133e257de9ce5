"""Latencies of inference: p50, p95 and p99 of a batch in every engine and setting."""

from __future__ import annotations

import plotly.graph_objects as go

from steplab.analysis.latency import Latency
from steplab.analysis.statistics.intervals import Interval
from steplab.report.charts.labels import in_lines, most_lines
from steplab.report.charts.style import finish, log_axis, rows_height, series, whiskers
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn, omission

MOST_ROWS = 24
QUANTILES = ("p50", "p95", "p99")


def latency(data: ReportData) -> Drawn | None:
    """The quantiles of each configuration in a row; engines in the same setting stand together, the lowest first."""
    inference = data.analysis.inference
    if inference is None:
        return None
    every = inference.latencies
    shown = every[:MOST_ROWS]
    texts = [in_lines(engine.factors, data.analysis.varied) for engine in shown]
    figure = go.Figure()
    for at, name in enumerate(QUANTILES):
        rows = [(row, interval) for row, engine in enumerate(shown) if (interval := quantile(engine, name)) is not None]
        if rows:
            _add(figure, name, at, rows, texts)
    times = [1e3 * interval.median for engine in shown for name in QUANTILES if (interval := quantile(engine, name))]
    figure.update_xaxes(log_axis(times))
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=texts, autorange="reversed")
    figure = finish(figure, "latency of a batch [ms]", "", height=rows_height(len(shown), most_lines(texts)))
    return drawn(figure, _untold(shown), omission(len(shown), len(every), "configurations", "the table has all"))


def quantile(latency: Latency, name: str) -> Interval | None:
    """A quantile by its name, where the trials have enough iterations for it."""
    return {"p50": latency.p50, "p95": latency.p95, "p99": latency.p99}[name]


def _untold(shown: list[Latency]) -> str:
    """Which quantiles are missing, and what they take."""
    if all(engine.p99 is not None for engine in shown):
        return ""
    return "p95 takes 20 iterations of a trial and p99 takes 100; where they are missing there were fewer."


def _add(figure: go.Figure, name: str, at: int, rows: list[tuple[int, Interval]], texts: list[str]) -> None:
    middle = [1e3 * interval.median for _, interval in rows]
    ends = [interval.ends or (interval.median, interval.median) for _, interval in rows]
    figure.add_scatter(
        x=middle, y=[row for row, _ in rows], mode="markers", name=name, marker=series(at)["marker"],
        error_x=whiskers(middle, [1e3 * low for low, _ in ends], [1e3 * high for _, high in ends]),
        customdata=[texts[row] for row, _ in rows],
        hovertemplate=f"%{{customdata}}<br>{name} %{{x:.4g}} ms<extra></extra>",
    )  # fmt: skip

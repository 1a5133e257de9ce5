"""Speed-up and efficiency against workers, beside the ideal line."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from steplab.analysis.summary import Group
from steplab.core import placement
from steplab.core.plain_text import plain
from steplab.report.charts.style import GREY, finish, series, whiskers
from steplab.report.data import ReportData, label

MOST_LINES = 8
Line = list[tuple[int, Group]]


def speedup(data: ReportData) -> go.Figure | None:
    """Speed-up and efficiency, one line for each configuration but its workers."""
    lines = _lines(data)
    most = max((workers for line in lines.values() for workers, _ in line), default=1)
    if most == 1:
        return None
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.12)
    ideal = {"mode": "lines", "line": {"dash": "dash", "color": GREY, "width": 2}, "hoverinfo": "skip"}
    figure.add_scatter(x=[1, most], y=[1, most], name="ideal", legendgroup="ideal", row=1, col=1, **ideal)
    figure.add_scatter(x=[1, most], y=[100, 100], showlegend=False, legendgroup="ideal", row=1, col=2, **ideal)
    for at, (name, line) in enumerate(_chosen(lines)):
        _add(figure, name, line, at)
    figure.update_xaxes(dtick=1 if most <= 16 else None)
    figure.update_yaxes(title={"text": "speed-up (throughput against one worker)"}, rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title={"text": "efficiency [%]"}, rangemode="tozero", row=1, col=2)
    return finish(figure, "workers", "", height=400 + 22 * min(len(lines), MOST_LINES))


def _lines(data: ReportData) -> dict[str, Line]:
    """The configurations with a speed-up, by everything but their workers."""
    scale = next((name for name in placement.FACTORS if name in data.analysis.varied), "workers")
    others = tuple(name for name in data.analysis.varied if name != scale)
    lines: dict[str, Line] = {}
    for group in data.analysis.groups:
        if group.speedup and scale in group.factors:
            lines.setdefault(label(group, others), []).append((_workers(group, scale), group))
    return {name: sorted(line, key=lambda point: point[0]) for name, line in lines.items() if len(line) > 1}


def _workers(group: Group, scale: str) -> int:
    """As said, or as many as its nodes have."""
    return int(group.factors[scale]) if scale == "workers" else placement.grid(group.factors).workers


def _chosen(lines: dict[str, Line]) -> list[tuple[str, Line]]:
    """All lines, or the best, the worst and some between them where there are too many to read."""
    ranked = sorted(lines.items(), key=lambda item: -(item[1][-1][1].efficiency or 0.0))
    if len(ranked) <= MOST_LINES:
        return ranked
    return [ranked[round(at * (len(ranked) - 1) / (MOST_LINES - 1))] for at in range(MOST_LINES)]


def _add(figure: go.Figure, name: str, line: Line, at: int) -> None:
    x = [workers for workers, _ in line]
    ratios = [group.speedup for _, group in line if group.speedup]
    value = [ratio.value for ratio in ratios]
    low = [ratio.value if ratio.low is None else ratio.low for ratio in ratios]
    high = [ratio.value if ratio.high is None else ratio.high for ratio in ratios]
    shares = [[100 * point / workers for point, workers in zip(ends, x, strict=True)] for ends in (value, low, high)]
    shown = {"mode": "lines+markers", "legendgroup": name, "name": plain(name), **series(at)}
    figure.add_scatter(x=x, y=value, error_y=whiskers(value, low, high), row=1, col=1, **shown,
                       hovertemplate="%{x} workers: speed-up %{y:.3g}<extra>%{fullData.name}</extra>")  # fmt: skip
    share = {"error_y": whiskers(shares[0], shares[1], shares[2]), "showlegend": False}
    figure.add_scatter(x=x, y=shares[0], row=1, col=2, **share, **shown,
                       hovertemplate="%{x} workers: %{y:.3g} %<extra>%{fullData.name}</extra>")  # fmt: skip

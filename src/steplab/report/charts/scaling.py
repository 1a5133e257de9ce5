"""Speed-up and efficiency against workers, beside the ideal line; small multiples where there are many series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from steplab.analysis.summary import Group
from steplab.core import placement
from steplab.core.trial import Level
from steplab.report.charts.labels import in_a_line
from steplab.report.charts.small_multiples import MOST_LINES, grid, some
from steplab.report.charts.style import GREY, finish, series, whiskers
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn, omission

IDEAL = {"mode": "lines", "name": "ideal", "legendgroup": "ideal", "hoverinfo": "skip",
         "line": {"dash": "dash", "color": GREY, "width": 2}}  # fmt: skip
SPEED_UP = "speed-up"
BETWEEN = "the best, the worst and some between; the table has all"
BEYOND = "Some intervals leave the picture: pointing at a value shows where its interval ends."
MOST_SKY = 2.0  # times what the largest value or the ideal needs: an interval that ends higher is cut off


@dataclass(frozen=True)
class Line:
    """A series: its levels but the workers, and its configurations by workers."""

    levels: dict[str, Level]
    points: tuple[tuple[int, Group], ...]

    @property
    def efficiency(self) -> float:
        """With the most workers."""
        return self.points[-1][1].efficiency or 0.0


def speedup(data: ReportData) -> Drawn | None:
    """Speed-up and efficiency, one line for each configuration but its workers."""
    scale = next((name for name in placement.FACTORS if name in data.analysis.varied), "workers")
    others = tuple(name for name in data.analysis.varied if name != scale)
    lines = _lines(data, others)
    if not lines:
        return None
    if len(lines) <= MOST_LINES:
        return drawn(_two_panels(lines, others), _cut(lines, False, True))
    return _small_multiples(lines, others)


def _lines(data: ReportData, others: tuple[str, ...]) -> list[Line]:
    """The series with a speed-up, the most efficient first."""
    points: dict[tuple[Level | None, ...], list[tuple[int, Group]]] = {}
    for group in data.analysis.groups:
        if group.speedup:
            key = tuple(group.factors.get(name) for name in others)
            points.setdefault(key, []).append((group.workers, group))
    lines = [
        Line({name: level for name, level in zip(others, key, strict=True) if level is not None}, tuple(line))
        for key, line in ((key, sorted(line, key=lambda point: point[0])) for key, line in points.items())
        if len(line) > 1
    ]
    return sorted(lines, key=lambda line: -line.efficiency)


def _two_panels(lines: Sequence[Line], others: tuple[str, ...]) -> go.Figure:
    """Few series: speed-up beside efficiency."""
    most = _most_workers(lines)
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.12)
    figure.add_scatter(x=[1, most], y=[1, most], row=1, col=1, **IDEAL)
    figure.add_scatter(x=[1, most], y=[100, 100], showlegend=False, row=1, col=2, **IDEAL)
    for at, line in enumerate(lines):
        look = {"name": in_a_line(line.levels, others), "legendgroup": str(at), **series(at)}
        _add(figure, line, {**look, "row": 1, "col": 1})
        _add(figure, line, {**look, "row": 1, "col": 2, "showlegend": False}, share=True)
    figure.update_xaxes(dtick=1 if most <= 16 else None)
    figure.update_yaxes(title={"text": SPEED_UP}, range=[0, 1.08 * _highest(lines)], col=1)
    figure.update_yaxes(title={"text": "efficiency [%]"}, range=[0, 108 * _highest(lines, share=True)], col=2)
    return finish(figure, "workers", "", height=420)


def _small_multiples(lines: Sequence[Line], others: tuple[str, ...]) -> Drawn:
    """Many series: a panel for each level of the factors that divide them best, with the same axes."""
    panels = grid(lines, others)
    figure, looks, shown = panels.figure(), dict[str, int](), 0
    most, highest = _most_workers(lines), _highest(lines)
    for panel in panels.panels:
        first = panel.row == panel.col == 1
        figure.add_scatter(x=[1, most], y=[1, most], showlegend=first, **IDEAL, **panel.place)
        for line in some(sorted(panel.lines, key=lambda line: -line.efficiency)):
            name = in_a_line(line.levels, panels.inside)
            look = {"name": name, "showlegend": name not in looks} | panel.place
            at = looks.setdefault(name, len(looks))
            _add(figure, line, {**look, "legendgroup": str(at), **series(at)})
            shown += 1
        figure.update_xaxes(dtick=1 if most <= 8 else None, title={"text": "workers", "standoff": 6}, **panel.place)
        title = {"text": SPEED_UP if panel.col == 1 else ""}
        figure.update_yaxes(range=[0, 1.08 * highest], title=title, **panel.place)
    finish(figure, "", "", height=panels.height)
    cut = _cut(lines, False)
    return drawn(figure, "Efficiencies are in the table.", cut, omission(shown, len(lines), "series", BETWEEN))


def _most_workers(lines: Sequence[Line]) -> int:
    return max(workers for line in lines for workers, _ in line.points)


def _highest(lines: Sequence[Line], *, share: bool = False) -> float:
    """Where the axis ends: at the highest interval, unless that would press everything else to the ground."""
    value, end = _values_and_ends(lines, share)
    return min(end, MOST_SKY * value)


def _cut(lines: Sequence[Line], *shares: bool) -> str:
    """A sentence where an interval leaves an axis: of speed-ups, of their shares, or of both."""
    spans = (_values_and_ends(lines, share) for share in shares)
    return BEYOND if any(end > MOST_SKY * value for value, end in spans) else ""


def _values_and_ends(lines: Sequence[Line], share: bool) -> tuple[float, float]:
    """The highest value, the ideal among them, and the highest end of an interval; as shares of the ideal if asked."""
    points = [(workers, group.speedup) for line in lines for workers, group in line.points if group.speedup]
    value = max(max(workers, ratio.value) / (workers if share else 1) for workers, ratio in points)
    end = max((ratio.high or ratio.value) / (workers if share else 1) for workers, ratio in points)
    return value, max(value, end)


def _add(figure: go.Figure, line: Line, look: dict[str, Any], *, share: bool = False) -> None:
    """A series with its intervals: speed-ups, or their share of the ideal in per cent."""
    x = [workers for workers, _ in line.points]
    ratios = [group.speedup for _, group in line.points if group.speedup]
    scale = [100 / workers if share else 1.0 for workers in x]
    value, low, high = (
        [factor * number for factor, number in zip(scale, numbers, strict=True)]
        for numbers in (
            [ratio.value for ratio in ratios],
            [ratio.value if ratio.low is None else ratio.low for ratio in ratios],
            [ratio.value if ratio.high is None else ratio.high for ratio in ratios],
        )
    )
    ends = [f" ({a:.3g} to {b:.3g})" if b > a else "" for a, b in zip(low, high, strict=True)]
    hover = "%{y:.3g} %" if share else "speed-up %{y:.3g}"
    told = f"%{{x}} workers: {hover}%{{customdata}}<extra>%{{fullData.name}}</extra>"
    figure.add_scatter(x=x, y=value, error_y=whiskers(value, low, high), mode="lines+markers", **look,
                       customdata=ends, hovertemplate=told)  # fmt: skip

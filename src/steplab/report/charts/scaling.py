"""Speed-up and efficiency against workers, beside the ideal line; small multiples where there are many series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from steplab.analysis.summary import Group
from steplab.core.trial import Level
from steplab.report.charts.labels import in_a_line
from steplab.report.charts.style import GREY, finish, panel_title, series, whiskers
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn, omission

MOST_LINES = 8  # in a panel
MOST_PANELS = 12
MOST_DIVIDING = 3  # factors that name a panel
COLUMNS = 3
IDEAL = {"mode": "lines", "name": "ideal", "legendgroup": "ideal", "hoverinfo": "skip",
         "line": {"dash": "dash", "color": GREY, "width": 2}}  # fmt: skip
SPEED_UP = "speed-up"
BETWEEN = "the best, the worst and some between; the table has all"


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
    others = tuple(name for name in data.analysis.varied if name != "workers")
    lines = _lines(data, others)
    if not lines:
        return None
    if len(lines) <= MOST_LINES:
        return drawn(_two_panels(lines, others))
    return _small_multiples(lines, others)


def _lines(data: ReportData, others: tuple[str, ...]) -> list[Line]:
    """The series with a speed-up, the most efficient first."""
    points: dict[tuple[Level | None, ...], list[tuple[int, Group]]] = {}
    for group in data.analysis.groups:
        if group.speedup and "workers" in group.factors:
            key = tuple(group.factors.get(name) for name in others)
            points.setdefault(key, []).append((int(group.factors["workers"]), group))
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
    figure.update_yaxes(title={"text": SPEED_UP}, rangemode="tozero", col=1)
    figure.update_yaxes(title={"text": "efficiency [%]"}, rangemode="tozero", col=2)
    return finish(figure, "workers", "", height=420)


def _small_multiples(lines: Sequence[Line], others: tuple[str, ...]) -> Drawn:
    """Many series: a panel for each level of the factors that divide them best, with the same axes."""
    apart = _dividing(lines, others)
    panels: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda line: [str(line.levels.get(name, "")) for name in apart]):
        panels.setdefault(in_a_line(line.levels, apart), []).append(line)
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = make_subplots(rows=rows, cols=columns, horizontal_spacing=0.07, vertical_spacing=0.3 / rows)
    inside = tuple(name for name in others if name not in apart)
    most, highest = _most_workers(lines), _highest(lines)
    looks: dict[str, int] = {}
    shown = 0
    for at, (title, panel) in enumerate(panels.items()):
        place = {"row": at // columns + 1, "col": at % columns + 1}
        figure.add_scatter(x=[1, most], y=[1, most], showlegend=at == 0, **IDEAL, **place)
        for line in _some(panel):
            name = in_a_line(line.levels, inside)
            new = name not in looks
            look = looks.setdefault(name, len(looks))
            _add(figure, line, {"name": name, "legendgroup": str(look), "showlegend": new, **series(look), **place})
            shown += 1
        if apart:
            panel_title(figure, title, **_row_column(place))
        figure.update_xaxes(dtick=1 if most <= 8 else None, title={"text": "workers", "standoff": 6}, **place)
        figure.update_yaxes(range=[0, 1.08 * highest], title={"text": SPEED_UP if at % columns == 0 else ""}, **place)
    finish(figure, "", "", height=60 + 260 * rows)
    return drawn(figure, "Efficiencies are in the table.", omission(shown, len(lines), "series", BETWEEN))


def _row_column(place: dict[str, int]) -> dict[str, int]:
    return {"row": place["row"], "column": place["col"]}


def _dividing(lines: Sequence[Line], others: tuple[str, ...]) -> tuple[str, ...]:
    """The factors whose levels make the fewest panels that are not crowded; frameworks rather than others."""
    most = min(len(others), MOST_DIVIDING + 1)
    choices = [names for size in range(most) for names in combinations(others, size)]
    sizes = {names: _sizes(lines, names) for names in choices}
    few = {names: size for names, size in sizes.items() if len(size) <= MOST_PANELS}
    fitting = {names: size for names, size in few.items() if max(size) <= MOST_LINES}
    if fitting:
        return min(fitting, key=lambda names: (len(names), "framework" not in names, len(fitting[names])))
    return min(few, key=lambda names: (max(few[names]), len(names)))


def _sizes(lines: Sequence[Line], names: tuple[str, ...]) -> list[int]:
    """How many series each combination of these factors' levels has."""
    counts: dict[tuple[Level | None, ...], int] = {}
    for line in lines:
        key = tuple(line.levels.get(name) for name in names)
        counts[key] = counts.get(key, 0) + 1
    return list(counts.values())


def _some(lines: list[Line]) -> list[Line]:
    """All lines, or the best, the worst and some between them where there are too many to read."""
    if len(lines) <= MOST_LINES:
        return lines
    ranked = sorted(lines, key=lambda line: -line.efficiency)
    return [ranked[round(at * (len(ranked) - 1) / (MOST_LINES - 1))] for at in range(MOST_LINES)]


def _most_workers(lines: Sequence[Line]) -> int:
    return max(workers for line in lines for workers, _ in line.points)


def _highest(lines: Sequence[Line]) -> float:
    ratios = [group.speedup for line in lines for _, group in line.points if group.speedup]
    return max(1.0, *(ratio.high or ratio.value for ratio in ratios))


def _add(figure: go.Figure, line: Line, look: dict[str, Any], *, share: bool = False) -> None:
    """A series with its intervals: speed-ups, or their share of the ideal in per cent."""
    x = [workers for workers, _ in line.points]
    ratios = [group.speedup for _, group in line.points if group.speedup]
    scale = [100 / workers if share else 1.0 for workers in x]
    value, low, high = (
        [factor * end for factor, end in zip(scale, ends, strict=True)]
        for ends in (
            [ratio.value for ratio in ratios],
            [ratio.value if ratio.low is None else ratio.low for ratio in ratios],
            [ratio.value if ratio.high is None else ratio.high for ratio in ratios],
        )
    )
    hover = "%{y:.3g} %" if share else "speed-up %{y:.3g}"
    figure.add_scatter(x=x, y=value, error_y=whiskers(value, low, high), mode="lines+markers", **look,
                       hovertemplate=f"%{{x}} workers: {hover}<extra>%{{fullData.name}}</extra>")  # fmt: skip

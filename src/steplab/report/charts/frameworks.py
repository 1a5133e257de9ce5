"""Frameworks in pairs: by what factor they differ over the configurations that they share."""

from __future__ import annotations

import plotly.graph_objects as go

from steplab.analysis.frameworks import Comparison
from steplab.core.plain_text import plain
from steplab.report.charts.labels import BREAK, LINE, most_lines
from steplab.report.charts.style import GREY, colour, finish, log_axis, rows_height, whiskers
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn, omission

MOST_ROWS = 20


def pairs(data: ReportData) -> Drawn | None:
    """The ratio of every two frameworks' speeds, the better one first; hollow where they cannot be told apart."""
    every = overall(data)
    if not every:
        return None
    shown = sorted(every, key=lambda pair: -max(pair.ratio, 1 / pair.ratio))[:MOST_ROWS]
    rows = [_turned(pair) for pair in shown]
    texts = [_versus(better, worse) for better, worse, *_ in rows]
    places = list(range(len(rows)))
    ratios = [ratio for _, _, ratio, _, _ in rows]
    figure = go.Figure(
        go.Scatter(
            x=ratios, y=places, mode="markers", showlegend=False,
            error_x=whiskers(ratios, [low for *_, low, _ in rows], [high for *_, high in rows], GREY),
            marker={
                "size": 10, "color": [colour(0) if pair.real else GREY for pair in shown],
                "symbol": ["circle" if pair.real else "circle-open" for pair in shown],
            },
            hovertemplate="× %{x:.3g}<extra></extra>",
        )
    )  # fmt: skip
    figure.add_vline(x=1.0, line={"dash": "dash", "color": GREY})
    figure.update_xaxes(log_axis([1.0, *(end for row in rows for end in row[3:])]))
    figure.update_yaxes(tickvals=places, ticktext=texts, autorange="reversed")
    figure = finish(figure, f"ratio of {shown[0].measure}", "", height=rows_height(len(rows), most_lines(texts)))
    return drawn(figure, omission(len(shown), len(every), "pairs", "the largest ratios"))


def overall(data: ReportData) -> list[Comparison]:
    """The pairs over all configurations, by the first measure that frameworks are compared by."""
    every = [pair for pair in data.analysis.frameworks if pair.factors is None]
    return [pair for pair in every if pair.measure == every[0].measure]


def _turned(pair: Comparison) -> tuple[str, str, float, float, float]:
    """The one with more of it first: ratios from 1 upwards."""
    low, high = (pair.low or pair.ratio, pair.high or pair.ratio)
    if pair.ratio >= 1:
        return pair.first, pair.second, pair.ratio, low, high
    return pair.second, pair.first, 1 / pair.ratio, 1 / high, 1 / low


def _versus(better: str, worse: str) -> str:
    short = len(better) + len(worse) + 9 < LINE
    return f"{plain(better)} against{' ' if short else BREAK}{plain(worse)}"

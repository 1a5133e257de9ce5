"""Decisions: how many workers pay, and how an adaptive design's doubt became less."""

from __future__ import annotations

import plotly.graph_objects as go

from steplab.report.charts.style import GREY, colour, finish, series
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn

MOST_TICKS = 16  # numbers of workers that all have a tick


def workers(data: ReportData) -> Drawn | None:
    """Predicted speed-up against workers with its 90 % band, and where one more stops paying."""
    curve = data.planned.workers
    if curve is None:
        return None
    figure, x = go.Figure(), list(curve.workers)
    figure.add_scatter(x=[*x, *x[::-1]], y=[*curve.high, *curve.low[::-1]], fill="toself", fillcolor=colour(0),
                       opacity=0.18, line_width=0, mode="lines", name="90 % interval", hoverinfo="skip")  # fmt: skip
    figure.add_scatter(x=x, y=list(curve.speedup), mode="lines+markers", name="predicted", **series(0),
                       hovertemplate="%{x} workers: %{y:.3g} times<extra></extra>")  # fmt: skip
    ideal = [count / x[0] for count in x]
    figure.add_scatter(x=x, y=ideal, mode="lines", name="ideal", line={"dash": "dash", "color": GREY, "width": 2})
    text = f"{curve.enough} are enough" if curve.enough < x[-1] else f"{curve.enough} still pay"
    figure.add_vline(x=curve.enough, line={"color": GREY, "width": 2}, annotation_text=text,
                     annotation_position=f"bottom {'left' if curve.enough > x[0] else 'right'}")  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    if len(x) <= MOST_TICKS:
        figure.update_xaxes(tickvals=x)
    return drawn(finish(figure, "workers", "speed-up", height=380), f"All else: {curve.of}.")


def narrowing(data: ReportData) -> Drawn | None:
    """What an adaptive design did not know, against the trials that it had measured."""
    doubts = data.planned.doubts
    if len(doubts) < 2:
        return None
    figure = go.Figure()
    figure.add_scatter(x=[doubt.trials for doubt in doubts], y=[100 * doubt.uncertainty for doubt in doubts],
                       mode="lines+markers", name="doubt", **series(0),
                       hovertemplate="after %{x} trials: %{y:.3g} %<extra></extra>")  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    return drawn(finish(figure, "trials measured", "uncertainty [%]", height=360), data.planned.ended)

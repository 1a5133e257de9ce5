"""Layers: their time in the network's order, and where each stands below the machine's roofs."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from steplab.report.charts.style import DASHES, GREY, MARKER_SIZE, MARKERS, bar, colour, finish, rows_height
from steplab.report.data import ReportData
from steplab.report.words import plain

MOST_LAYERS = 60


def layers(data: ReportData) -> go.Figure | None:
    """Forward and backward time of each layer in the configuration with the highest throughput."""
    rows = data.layers
    if not len(rows):
        return None
    if len(rows) > MOST_LAYERS:
        longest = (rows["t_f"] + rows["t_b"]).nlargest(MOST_LAYERS).index
        rows = rows.loc[sorted(longest)]
    places = list(range(len(rows)))
    figure = go.Figure()
    for at, column, name in ((0, "t_f", "forward"), (1, "t_b", "backward")):
        figure.add_bar(
            x=rows[column].to_numpy(float) * 1e3, y=places, orientation="h", name=name, marker=bar(at),
            customdata=[plain(one) for one in rows["layer"]],
            hovertemplate=f"%{{customdata}}: {name} %{{x:.4g}} ms<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", bargap=0.3)
    figure.update_yaxes(tickvals=places, ticktext=[plain(one, 32) for one in rows["layer"]], autorange="reversed")
    return finish(figure, f"median time [ms] ({plain(data.layers_of)})", "", height=rows_height(len(rows)) + 40)


def roofline(data: ReportData) -> go.Figure | None:
    """Speed against arithmetic intensity on two logarithmic axes: the roofs, and a point for each layer.

    After Williams, Waterman and Patterson: Roofline, Communications of the ACM 52 (4), 2009.
    """
    roof = data.roofline
    points = [] if roof is None else [one for one in roof.points if one.intensity > 0 and one.flops_per_s > 0]
    if roof is None or not points or not roof.ceilings:
        return None
    figure = go.Figure()
    intensities = [one.intensity for one in points]
    for at, ceiling in enumerate(roof.ceilings):
        ridge = ceiling.flops_per_s / ceiling.bytes_per_s
        x = np.array([min(*intensities, ridge) / 4, ridge, max(*intensities, ridge) * 4])
        figure.add_scatter(
            x=x, y=np.minimum(x * ceiling.bytes_per_s, ceiling.flops_per_s) / 1e9, mode="lines",
            name=f"{ceiling.threads} thread{'s' if ceiling.threads != 1 else ''}: "
            f"{ceiling.flops_per_s / 1e9:.3g} GFLOP/s, {ceiling.bytes_per_s / 1e9:.3g} GB/s",
            line={"color": GREY, "dash": DASHES[at % len(DASHES)], "width": 2}, hoverinfo="skip",
        )  # fmt: skip
    for at, bound in enumerate(sorted({str(one.bound) for one in points})):
        _add_points(figure, [one for one in points if str(one.bound) == bound], bound, at)
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    return finish(figure, "arithmetic intensity [FLOP/byte]", "speed [GFLOP/s]", height=480)


def _add_points(figure: go.Figure, points: list[Any], bound: str, at: int) -> None:
    figure.add_scatter(
        x=[one.intensity for one in points], y=[one.flops_per_s / 1e9 for one in points], mode="markers",
        name=f"bound by {plain(bound)}",
        marker={"color": colour(at), "symbol": MARKERS[at % len(MARKERS)], "size": MARKER_SIZE},
        customdata=[[plain(one.layer), 100 * (one.share_of_roof or 0.0)] for one in points],
        hovertemplate="%{customdata[0]}<br>%{x:.3g} FLOP/byte, %{y:.3g} GFLOP/s<br>%{customdata[1]:.0f} % of the roof"
        "<extra></extra>",
    )  # fmt: skip

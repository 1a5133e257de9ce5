"""Layers: their time in the network's order, and where each stands below the machine's roofs."""

from __future__ import annotations

import plotly.graph_objects as go

from steplab.analysis.roofline import chart
from steplab.core.plain_text import plain
from steplab.report.charts.labels import shortened
from steplab.report.charts.style import GREY, bar, finish, rows_height
from steplab.report.data import ReportData, of_levels
from steplab.report.drawing import Drawn, drawn, omission
from steplab_worker.phases import LAYERED, PASSES

MOST_LAYERS = 60


def layers(data: ReportData) -> Drawn | None:
    """Forward and backward time of each layer in the configuration with the highest throughput."""
    profile = data.analysis.layers
    if profile is None:
        return None
    rows = profile.longest(MOST_LAYERS)
    places = list(range(len(rows)))
    figure = go.Figure()
    for at, column in enumerate(LAYERED):
        name = PASSES[column]
        figure.add_bar(
            x=[1e3 * getattr(row, column) for row in rows], y=places, orientation="h", name=name, marker=bar(at),
            customdata=[plain(row.layer) for row in rows],
            hovertemplate=f"%{{customdata}}: {name} %{{x:.4g}} ms<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", bargap=0.3)
    figure.update_yaxes(tickvals=places, ticktext=[plain(shortened(row.layer)) for row in rows], autorange="reversed")
    figure = finish(figure, "median time [ms]", "", height=rows_height(len(rows)))
    return drawn(
        figure, f"The configuration: {of_levels(profile.factors, data.analysis.varied)}.",
        omission(len(rows), len(profile.layers), "layers", "the longest"),
    )  # fmt: skip


def roofline(data: ReportData) -> Drawn | None:
    """Speed against arithmetic intensity on two logarithmic axes: the roofs, and a point for each layer."""
    if data.roofline is None or not any(point.flops_per_s for point in data.roofline.points):
        return None
    figure = finish(chart.figure(data.roofline), "", "", height=560)
    figure.update_layout(title=None)
    # Black points would vanish on a dark page.
    for trace in figure.data:
        if trace.marker.color == "#000000":
            trace.marker.color = GREY
    return drawn(figure)

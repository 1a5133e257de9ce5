"""Layers: their time in the network's order, and where each stands below the machine's roofs."""

from __future__ import annotations

import plotly.graph_objects as go

from steplab.analysis.roofline import chart
from steplab.core.plain_text import plain
from steplab.report.charts.labels import shortened
from steplab.report.charts.style import GREY, bar, finish, rows_height
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn, omission
from steplab_worker.phases import LAYERED, PASSES

MOST_LAYERS = 60


def layers(data: ReportData) -> Drawn | None:
    """Forward and backward time of each layer in the configuration with the highest throughput."""
    rows = data.layers
    if not len(rows):
        return None
    if len(rows) > MOST_LAYERS:
        longest = rows[list(LAYERED)].sum(axis=1).nlargest(MOST_LAYERS).index
        rows = rows.loc[sorted(longest)]
    places = list(range(len(rows)))
    figure = go.Figure()
    for at, column in enumerate(LAYERED):
        name = PASSES[column]
        figure.add_bar(
            x=rows[column].to_numpy(float) * 1e3, y=places, orientation="h", name=name, marker=bar(at),
            customdata=[plain(layer) for layer in rows["layer"]],
            hovertemplate=f"%{{customdata}}: {name} %{{x:.4g}} ms<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", bargap=0.3)
    figure.update_yaxes(
        tickvals=places, ticktext=[plain(shortened(layer)) for layer in rows["layer"]], autorange="reversed"
    )
    figure = finish(figure, "median time [ms]", "", height=rows_height(len(rows)))
    return drawn(
        figure, f"The configuration: {data.layers_of}.", omission(len(rows), len(data.layers), "layers", "the longest")
    )


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

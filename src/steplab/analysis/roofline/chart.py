"""The roofline as a Plotly figure: roofs as lines, layers and phases as points, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import plotly.graph_objects as go

from steplab.analysis.roofline.points import Roofline, RooflinePoint
from steplab.core.units import count, seconds, size
from steplab.costs.roofs import FLOAT32

# Okabe and Ito's palette, distinguishable with every kind of colour vision.
COLOURS = {
    "conv": "#0072B2", "dense": "#D55E00", "norm": "#009E73", "activation": "#E69F00", "pool": "#CC79A7",
    "phase": "#000000", "other": "#56B4E9",
}  # fmt: skip
SYMBOLS = {"forward": "circle", "backward": "diamond", "update": "square", "kernel": "circle"}
ROOF = "#666666"
DASHES = ("solid", "dash", "dot", "dashdot")
LABELS = {"forward": "top center", "backward": "bottom center", "update": "top center", "kernel": "bottom center"}
MOST_KERNELS = 10  # that are named in the legend
GRID = "rgba(128,128,128,0.25)"


def figure(roofline: Roofline) -> go.Figure:
    """The chart of one configuration; a point that was only estimated stands on its roof, hollow."""
    drawn = [point for point in roofline.points if math.isfinite(point.intensity) and point.intensity > 0]
    low, high = _reach(roofline, drawn)
    drawing = go.Figure()
    _roofs(drawing, roofline, low, high)
    for name, colour, points in _groups(drawn):
        _add(drawing, name, colour, points)
    return _finish(drawing, roofline, low, high, drawn)


def _groups(drawn: Sequence[RooflinePoint]) -> Iterator[tuple[str, str, list[RooflinePoint]]]:
    """What gets an entry in the legend, with its colour: a kind of layer in one pass, or each of the first kernels."""
    palette = [colour for name, colour in COLOURS.items() if name != "phase"]
    kernels = [point for point in drawn if point.of == "kernel"]
    for at, point in enumerate(kernels[:MOST_KERNELS]):
        yield _short(point.layer), palette[at % len(palette)], [point]
    if kernels[MOST_KERNELS:]:
        yield "other kernels", "#999999", kernels[MOST_KERNELS:]
    layers = [(family_of(point), point.of) for point in drawn if point.of != "kernel"]
    for family, of in sorted(dict.fromkeys(layers), key=lambda layer: [name for name, _ in layers].index(layer[0])):
        yield f"{family}, {of}", COLOURS[family], [p for p in drawn if (family_of(p), p.of) == (family, of)]


def _short(name: str) -> str:
    return _safe(name if len(name) <= 32 else name[:31] + "…")


def family_of(point: RooflinePoint) -> str:
    """The group of kinds that share a colour.

    >>> family_of(RooflinePoint("bn1", "batch_norm", "forward", 1.0, 1.0, None, 1.0, "DRAM", "bandwidth"))
    'norm'
    """
    for part in ("conv", "pool", "norm"):
        if part in point.kind:
            return part
    return point.kind if point.kind in COLOURS else "dense" if point.kind == "matmul" else "other"


def _reach(roofline: Roofline, drawn: Sequence[RooflinePoint]) -> tuple[float, float]:
    """The range of intensities: all points, and where each level's roof meets the peak."""
    ridges = [roofline.ceiling.flops_per_s / level.bytes_per_s for level in roofline.ceiling.levels]
    every = [point.intensity for point in drawn] + ridges
    return min(every) / 2.5, max(every) * 2.5


def _roofs(drawing: go.Figure, roofline: Roofline, low: float, high: float) -> None:
    ceiling = roofline.ceiling
    fastest = max(level.bytes_per_s for level in ceiling.levels)
    start = max(low, min(ceiling.flops_per_s / fastest, high))
    _roof(drawing, start, high, ceiling.flops_per_s, 0.0, f"peak {count(ceiling.flops_per_s)}FLOP/s", "solid")
    for at, level in enumerate(reversed(ceiling.levels)):
        end = min(ceiling.flops_per_s / level.bytes_per_s, high)
        if end > low:
            name = f"{level.name} {count(level.bytes_per_s)}B/s"
            _roof(drawing, low, end, low * level.bytes_per_s, 1.0, name, DASHES[at % len(DASHES)])


def _roof(drawing: go.Figure, low: float, high: float, start: float, slope: float, name: str, dash: str) -> None:
    # Many points on a line, so that it answers the pointer everywhere.
    steps = [(high / low) ** (i / 40) for i in range(41)]
    drawing.add_scatter(
        x=[low * step for step in steps],
        y=[start * step**slope for step in steps],
        mode="lines",
        line={"color": ROOF, "width": 2, "dash": dash},
        name=name,
        hovertemplate=f"{name}<extra></extra>",
    )


def _add(drawing: go.Figure, name: str, colour: str, points: Sequence[RooflinePoint]) -> None:
    drawing.add_scatter(
        x=[point.intensity for point in points],
        y=[point.flops_per_s or point.attainable for point in points],
        mode="markers+text" if points[0].kind == "phase" else "markers",
        text=[_safe(point.layer) for point in points],
        textposition=LABELS[points[0].of],
        name=name,
        marker=_marker(points, colour),
        customdata=[[hover(point)] for point in points],
        hovertemplate="%{customdata[0]}<extra></extra>",
    )


def _marker(points: Sequence[RooflinePoint], colour: str) -> dict[str, object]:
    """Filled where measured, hollow where estimated, faint where too short to be judged."""
    measured = points[0].seconds is not None
    return {
        "symbol": SYMBOLS[points[0].of] + ("" if measured else "-open"),
        "size": [_area(point) for point in points],
        "color": colour,
        "opacity": [0.8 if point.judged or not measured else 0.3 for point in points],
        "line": {"width": 1, "color": "white" if measured else colour},
    }


def _area(point: RooflinePoint) -> float:
    """Size of a marker: larger where more time goes."""
    return 9.0 if not point.seconds else min(max(7.0, 3.0 * math.log10(point.seconds * 1e6 + 1.0)), 22.0)


def hover(point: RooflinePoint) -> str:
    """What the pointer shows of a point."""
    lines = [
        f"<b>{_safe(point.layer)}</b> ({_safe(point.kind)}), {point.of}",
        f"{count(point.flops)}FLOP, {size(point.bytes)}, {point.intensity:.3g} FLOP/byte",
        f"roof: {point.roof}, {count(point.attainable)}FLOP/s",
    ]
    if point.flops_per_s is not None and point.seconds is not None:
        lines.append(
            f"{count(point.flops_per_s)}FLOP/s in {seconds(point.seconds)}: {point.share_of_roof:.0%} of the roof"
        )
    else:
        lines.append("estimated: no time was measured")
    return "<br>".join(lines)


def _safe(text: str) -> str:
    """A name that a browser shows as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _finish(
    drawing: go.Figure, roofline: Roofline, low: float, high: float, drawn: Sequence[RooflinePoint]
) -> go.Figure:
    rates = [point.flops_per_s or point.attainable for point in drawn] + [low * roofline.ceiling.bytes_per_s]
    bottom, top = min(rates) / 2, roofline.ceiling.flops_per_s * 3
    axis = {"type": "log", "gridcolor": GRID, "zeroline": False, "automargin": True, "exponentformat": "SI", "dtick": 1}
    threads = roofline.ceiling.threads
    on = roofline.machine + (f", {threads} thread{'s' * (threads > 1)}" if threads else "")
    on += f", {roofline.ceiling.precision}" if roofline.ceiling.precision != FLOAT32 else ""
    drawing.update_layout(
        title={"text": f"{_safe(roofline.title)}<br><sup>{_safe(on)}</sup>", "x": 0.02},
        height=620,
        margin={"l": 10, "r": 20, "t": 80, "b": 50},
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13},
        xaxis=axis | {"title": {"text": "FLOPs per byte"}, "range": [math.log10(low), math.log10(high)]},
        yaxis=axis | {"title": {"text": "FLOP/s"}, "range": [math.log10(bottom), math.log10(top)]},
    )  # fmt: skip
    return drawing

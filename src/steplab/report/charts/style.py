"""One look for all charts: colours and shapes that every kind of colour vision tells apart, units on every axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go

# Okabe and Ito's palette (Color Universal Design, 2008); its yellow comes last, it is weak on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#7F7F7F", "#B8A900")
GREY = "#8A8A8A"
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", "\\", "x", "-", "|", "+", ".")
GRID = "rgba(128,128,128,0.25)"
MARKER_SIZE = 9
MOST_TICKS = 7
LEGEND_WIDTH = 760  # of a figure in a file; the page writes its legends itself
LEGEND_LINE = 20
TITLE_ROOM = 24
TICKS = ((1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0), (1.0, 2.0, 5.0), (1.0,))  # of a decade, the finest first


def colour(at: int) -> str:
    """The colour of the series of that number."""
    return COLOURS[at % len(COLOURS)]


def series(at: int) -> dict[str, Any]:
    """Colour, marker and dash of a series: each alone tells it apart."""
    return {
        "marker": {"color": colour(at), "symbol": MARKERS[at % len(MARKERS)], "size": MARKER_SIZE},
        "line": {"color": colour(at), "dash": DASHES[at % len(DASHES)], "width": 2},
    }


def bar(at: int) -> dict[str, Any]:
    """Colour and hatching of a part of a stacked bar."""
    pattern = {
        "shape": PATTERNS[at % len(PATTERNS)],
        "size": 6,
        "solidity": 0.2,
        "fillmode": "overlay",
        "fgcolor": "#ffffff",
    }
    return {"color": colour(at), "pattern": pattern, "line": {"width": 0.5, "color": "#ffffff"}}


def whiskers(
    middle: Sequence[float], low: Sequence[float], high: Sequence[float], color: str | None = None
) -> dict[str, Any]:
    """Error bars from the ends of intervals."""
    return {
        "type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": color,
        "array": [top - at for at, top in zip(middle, high, strict=True)],
        "arrayminus": [at - bottom for at, bottom in zip(middle, low, strict=True)],
    }  # fmt: skip


def finish(figure: go.Figure, x: str, y: str, *, height: int = 420) -> go.Figure:
    """Axis titles, margins and a transparent ground; the page sets the ink of light and dark.

    `height` is that of the chart without its legend, which stands above everything else.
    """
    axis = {"automargin": True, "gridcolor": GRID, "zeroline": False, "linecolor": GRID, "ticks": "outside"}
    figure.update_xaxes(axis | ({"title": {"text": x, "standoff": 8}} if x else {}))
    figure.update_yaxes(axis | ({"title": {"text": y, "standoff": 8}} if y else {}))
    room, top = _legend_room(figure), 12 + (TITLE_ROOM if figure.layout.annotations else 0)
    figure.update_layout(
        template="none", height=height + room, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 12, "r": 16, "t": top + room, "b": 48}, font={"family": "system-ui, sans-serif", "size": 13},
        legend={"orientation": "h", "y": 1.0, "yref": "container", "yanchor": "top", "x": 0, "xanchor": "left",
                "traceorder": "normal"},
        hoverlabel={"align": "left"}, meta={"legend": room},
    )  # fmt: skip
    return figure


def _legend_room(figure: go.Figure) -> int:
    """Pixels that the legend takes in a figure of a file."""
    names = [trace.name for trace in figure.data if trace.name and trace.showlegend is not False]
    if len(names) < 2 and not any(trace.showlegend for trace in figure.data):
        return 0
    columns = max(1, LEGEND_WIDTH // (48 + 7 * max(map(len, names))))
    return LEGEND_LINE * -(-len(names) // columns) + 12


def panel_title(figure: go.Figure, text: str, row: int, column: int) -> None:
    """A title that stands above a panel, wherever the page moves the panel."""
    x, y = (axis.plotly_name.replace("axis", "") for axis in figure.get_subplot(row, column))
    figure.add_annotation(text=f"<b>{text}</b>", x=0, xref=f"{x} domain", xanchor="left", y=1, yref=f"{y} domain",
                          yanchor="bottom", yshift=2, showarrow=False)  # fmt: skip


def log_axis(values: Iterable[float]) -> dict[str, Any]:
    """A logarithmic axis for these values with its ticks written out; plotly would shorten 20 to 2.

    >>> log_axis([3.0, 0.0, 41.0])["ticktext"], log_axis([12.0, 19.0])["ticktext"], log_axis([1.0, 1.01])
    (['5', '10', '20'], ['12', '15'], {'type': 'log'})
    """
    known = [value for value in values if math.isfinite(value) and value > 0]
    low, high = (min(known), max(known)) if known else (1.0, 1.0)
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    ticks: list[float] = []
    for digits in TICKS:
        ticks = [d * 10.0**decade for decade in decades for d in digits if low <= d * 10.0**decade <= high]
        if len(ticks) <= MOST_TICKS:
            break
    if len(ticks) < 2:
        return {"type": "log"}
    ticks = ticks[:: -(-len(ticks) // MOST_TICKS)]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:.3g}" for tick in ticks]}


def rows_height(rows: int, lines: int = 1) -> int:
    """The height of a chart with so many lines of text per row."""
    return 110 + (9 + 16 * lines) * max(rows, 3)

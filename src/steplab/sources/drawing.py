"""Small charts for the pages of the sources: points or lines of a few groups as one SVG, the same from the same table.

The report's charts are interactive and need a browser to become pictures; these stand in a page in Git and must not
change unless their numbers do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import pandas as pd

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 360, 64, 48, 16, 150
# Okabe and Ito's colours, which people with colour blindness can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


@dataclass(frozen=True)
class Axis:
    """One axis: its words, and from the values' range to pixels."""

    label: str
    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        """Where a value stands, in pixels."""
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / ((high - low) or 1.0) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """A handful of round values in the range."""
        if self.log:
            powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            tens = [10.0**power for power in powers]
            return tens if len(tens) > 1 else [self.low, self.high]
        step = 10 ** math.floor(math.log10((self.high - self.low) or 1.0))
        step = step / 2 if (self.high - self.low) / step < 3 else step
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step) + 1)]


def chart(points: pd.DataFrame, x: str, y: str, group: str, *, labels: tuple[str, str], log: bool, joined: bool) -> str:
    """An SVG of two columns, a colour for each group; `joined` draws lines, otherwise the line y = x is shown.

    Without any point there is no picture: the text is empty.
    """
    known = points[[x, y, group]].dropna()
    if known.empty:
        return ""
    across = _axis(labels[0], known[x], LEFT, WIDTH - RIGHT, log)
    up = _axis(labels[1], known[y], HEIGHT - BOTTOM, TOP, log)
    groups = [str(name) for name in sorted(known[group].unique())]
    parts = [*_frame(across, up), *([] if joined else _diagonal(across, up))]
    for place, name in enumerate(groups):
        own = known[known[group].astype(str) == name].sort_values(x)
        at = [(across(a), up(b)) for a, b in zip(own[x].astype(float), own[y].astype(float), strict=True)]
        parts += [*_series(at, COLOURS[place % len(COLOURS)], joined=joined), *_legend(place, name)]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>", ""])


def _axis(label: str, values: pd.Series, start: float, end: float, log: bool) -> Axis:
    low, high = float(values.min()), float(values.max())
    if log:
        return Axis(label, low / 1.1, high * 1.1, start, end, True)
    room = 0.05 * ((high - low) or 1.0)
    return Axis(label, low - room, high + room, start, end, False)


def _frame(across: Axis, up: Axis) -> Iterator[str]:
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    inside = f'width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    yield f'<rect x="{LEFT}" y="{TOP}" {inside} fill="none" stroke="#888888"/>'
    for tick in across.ticks:
        yield f'<text x="{across(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>'
    for tick in up.ticks:
        yield f'<text x="{LEFT - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across.label)}</text>'
    turned = f'transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)"'
    yield f'<text {turned} text-anchor="middle">{escape(up.label)}</text>'


def _diagonal(across: Axis, up: Axis) -> Iterator[str]:
    """The line on which a prediction is right."""
    low, high = max(across.low, up.low), min(across.high, up.high)
    if low < high:
        ends = f'x1="{across(low):.1f}" y1="{up(low):.1f}" x2="{across(high):.1f}" y2="{up(high):.1f}"'
        yield f'<line {ends} stroke="#888888" stroke-dasharray="4 3"/>'


def _series(at: Sequence[tuple[float, float]], colour: str, *, joined: bool) -> Iterator[str]:
    if joined:
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in at)


def _legend(place: int, name: str) -> Iterator[str]:
    y = TOP + 14 + 18 * place
    yield f'<circle cx="{WIDTH - RIGHT + 16}" cy="{y - 4}" r="4" fill="{COLOURS[place % len(COLOURS)]}"/>'
    yield f'<text x="{WIDTH - RIGHT + 26}" y="{y}">{escape(name)}</text>'

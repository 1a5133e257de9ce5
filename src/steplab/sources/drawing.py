"""Small charts for the pages of the sources: points or lines of a few groups as one SVG, the same from the same table.

The report's charts are interactive and need a browser to become pictures; these stand in a page in Git and must not
change unless their numbers do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

import pandas as pd

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 360, 64, 48, 16, 150
ENOUGH = 3  # ticks of an axis, if there can be so many
FEW = 6  # different values that an axis has room for
# Okabe and Ito's colours, which people with colour blindness can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

Pixels = list[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """One axis: its words, and from the values' range to pixels."""

    label: str
    low: float
    high: float
    start: float
    end: float
    log: bool
    marked: tuple[float, ...] = ()  # where its ticks stand; by default at round values

    def __call__(self, value: float) -> float:
        """Where a value stands, in pixels."""
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / ((high - low) or 1.0) * (self.end - self.start)

    def _steps(self, digits: tuple[float, ...]) -> list[float]:
        """The values in the range of a logarithmic axis that begin with these digits."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = (digit * 10.0**power for power in powers for digit in digits)
        return [value for value in values if self.low <= value <= self.high]

    @property
    def ticks(self) -> list[float]:
        """A handful of values in the range, round ones unless they are given."""
        if self.marked:
            return list(self.marked)
        if self.log:
            tens = self._steps((1.0,))
            return tens if len(tens) >= ENOUGH else self._steps((1.0, 2.0, 5.0)) or [self.low, self.high]
        step = 10 ** math.floor(math.log10((self.high - self.low) or 1.0))
        step = step / 2 if (self.high - self.low) / step < 3 else step
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step) + 1)]


def chart(
    points: pd.DataFrame,
    x: str,
    y: str,
    group: str,
    *,
    labels: tuple[str, str],
    log: bool,
    joined: bool,
    guide: pd.DataFrame | None = None,
) -> str:
    """An SVG of two columns, a colour for each group; `joined` draws lines between the points of a group.

    `guide` has the points of a dashed line that the others are to be seen against; of scattered points that is y = x
    unless another is given. Without any point there is no picture: the text is empty.
    """
    known = points[[x, y, group]].dropna()
    if known.empty:
        return ""
    seen = known if guide is None else pd.concat([known, guide[[x, y]]])
    across = _axis(labels[0], seen[x], LEFT, WIDTH - RIGHT, log, few=joined)
    up = _axis(labels[1], seen[y], HEIGHT - BOTTOM, TOP, log)
    groups = [str(name) for name in sorted(known[group].unique())]
    against = _diagonal(across, up, scattered=not joined) if guide is None else _placed(guide, x, y, across, up)
    parts = [*_frame(across, up), *_dashed(against)]
    for place, name in enumerate(groups):
        at = _placed(known[known[group].astype(str) == name].sort_values(x), x, y, across, up)
        parts += [*_series(at, COLOURS[place % len(COLOURS)], joined=joined), *_legend(place, name)]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>", ""])


def speedups_chart(own: pd.DataFrame, group: str, what: str) -> str:
    """Speed-up over the number of workers from (1, 1) on, a line for each group; dashed: as many times as workers."""
    alone = own.drop_duplicates(group).assign(workers=1, speedup=1.0)
    points = pd.concat([alone, own]).astype({"workers": float})
    ideal = pd.DataFrame({"workers": sorted(points["workers"].unique())}).assign(speedup=lambda frame: frame["workers"])
    labels = (what, "speed-up")
    return chart(points, "workers", "speedup", group, labels=labels, log=False, joined=True, guide=ideal)


def _placed(points: pd.DataFrame, x: str, y: str, across: Axis, up: Axis) -> Pixels:
    return [(across(a), up(b)) for a, b in zip(points[x].astype(float), points[y].astype(float), strict=True)]


def _axis(label: str, values: pd.Series, start: float, end: float, log: bool, *, few: bool = False) -> Axis:
    """An axis with room for all values; if they are `few` different ones, as workers, its ticks stand there."""
    low, high = float(values.min()), float(values.max())
    known = tuple(sorted(map(float, set(values))))
    marked = known if few and len(known) <= FEW else ()
    if log:
        return Axis(label, low / 1.1, high * 1.1, start, end, True, marked)
    room = 0.05 * ((high - low) or 1.0)
    return Axis(label, low - room, high + room, start, end, False, marked)


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


def _diagonal(across: Axis, up: Axis, *, scattered: bool) -> Pixels:
    """The line on which a prediction is right; only scattered points are predictions."""
    low, high = max(across.low, up.low), min(across.high, up.high)
    return [(across(low), up(low)), (across(high), up(high))] if scattered and low < high else []


def _dashed(at: Pixels) -> Iterator[str]:
    if at:
        yield f'<polyline points="{_path(at)}" fill="none" stroke="#888888" stroke-dasharray="4 3"/>'


def _path(at: Pixels) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in at)


def _series(at: Pixels, colour: str, *, joined: bool) -> Iterator[str]:
    if joined:
        yield f'<polyline points="{_path(at)}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in at)


def _legend(place: int, name: str) -> Iterator[str]:
    y = TOP + 14 + 18 * place
    yield f'<circle cx="{WIDTH - RIGHT + 16}" cy="{y - 4}" r="4" fill="{COLOURS[place % len(COLOURS)]}"/>'
    yield f'<text x="{WIDTH - RIGHT + 26}" y="{y}">{escape(name)}</text>'

"""Many series in small multiples: which factors make the panels, and where each panel stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, Protocol, TypeVar

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from steplab.core.trial import Level
from steplab.report.charts.labels import in_a_line
from steplab.report.charts.style import panel_title

MOST_LINES = 8  # in a panel
MOST_PANELS = 12
MOST_DIVIDING = 3  # factors that name a panel
COLUMNS = 3
PANEL_HEIGHT = 260


class HasLevels(Protocol):
    """A series that knows its configuration."""

    @property
    def levels(self) -> Mapping[str, Level]:
        """The levels of its factors."""


Line = TypeVar("Line", bound=HasLevels)
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Panel(Generic[Line]):
    """A panel: its place, its title and its series."""

    row: int
    col: int
    title: str
    lines: list[Line]

    @property
    def place(self) -> dict[str, int]:
        """Where Plotly puts what belongs to it."""
        return {"row": self.row, "col": self.col}


@dataclass(frozen=True)
class Grid(Generic[Line]):
    """Panels in rows, the factors that divide them, and those that tell the series of a panel apart."""

    panels: list[Panel[Line]]
    inside: tuple[str, ...]
    rows: int

    @property
    def height(self) -> int:
        """Pixels."""
        return 60 + PANEL_HEIGHT * self.rows

    def figure(self) -> go.Figure:
        """An empty figure with its panels, titled."""
        columns = max(panel.col for panel in self.panels)
        spacing = {"horizontal_spacing": 0.07, "vertical_spacing": 0.3 / self.rows}
        figure = make_subplots(rows=self.rows, cols=columns, **spacing)
        for panel in self.panels:
            if panel.title:
                panel_title(figure, panel.title, panel.row, panel.col)
        return figure


def grid(lines: Sequence[Line], factors: tuple[str, ...]) -> Grid[Line]:
    """The series in panels; in a single one without a title if they are few."""
    apart = dividing([line.levels for line in lines], factors) if len(lines) > MOST_LINES else ()
    panels: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda line: [_order(line.levels.get(name)) for name in apart]):
        panels.setdefault(in_a_line(line.levels, apart) if apart else "", []).append(line)
    columns = min(COLUMNS, len(panels))
    placed = [Panel(at // columns + 1, at % columns + 1, title, own) for at, (title, own) in enumerate(panels.items())]
    return Grid(placed, tuple(name for name in factors if name not in apart), placed[-1].row)


def _order(level: Level | None) -> tuple[bool, float, str]:
    """Numbers by size, words by the alphabet."""
    number = isinstance(level, int | float)
    return (not number, float(level) if isinstance(level, int | float) else 0.0, str(level))


def dividing(levels: Sequence[Mapping[str, Level]], factors: tuple[str, ...]) -> tuple[str, ...]:
    """The factors whose levels make the fewest panels that are not crowded; frameworks rather than others.

    >>> dividing([{"framework": f, "batch_size": b} for f in "abc" for b in range(4)], ("batch_size", "framework"))
    ('framework',)
    """
    sizes = {names: _sizes(levels, names) for names in _choices(factors)}
    few = {names: size for names, size in sizes.items() if len(size) <= MOST_PANELS}
    fitting = {names: size for names, size in few.items() if max(size) <= MOST_LINES}
    if fitting:
        return min(fitting, key=lambda names: (len(names), "framework" not in names, len(fitting[names])))
    return min(few, key=lambda names: (max(few[names]), len(names)))


def _choices(factors: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for size in range(min(len(factors), MOST_DIVIDING + 1)):
        yield from combinations(factors, size)


def _sizes(levels: Sequence[Mapping[str, Level]], names: tuple[str, ...]) -> list[int]:
    """How many series each combination of these factors' levels has."""
    counts: dict[tuple[Level | None, ...], int] = {}
    for own in levels:
        key = tuple(own.get(name) for name in names)
        counts[key] = counts.get(key, 0) + 1
    return list(counts.values())


def some(ranked: Sequence[Thing], most: int = MOST_LINES) -> list[Thing]:
    """All of them, or the first, the last and some between them where there are too many to read.

    >>> some([1, 2, 3, 4, 5, 6, 7], 3)
    [1, 4, 7]
    """
    if len(ranked) <= most:
        return list(ranked)
    return [ranked[round(at * (len(ranked) - 1) / (most - 1))] for at in range(most)]

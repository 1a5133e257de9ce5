"""A table of the page as data: what a column is called, its unit, and plain rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from steplab.core.trial import Level
from steplab.report.data import ReportData

Cell = str | int | float | None
DIGITS = 9  # significant digits that are kept: no clock is better


@dataclass(frozen=True)
class Column:
    """A column: its key in CSV files, its title and unit on the page, and by what the page multiplies it."""

    key: str
    title: str
    kind: Literal["text", "number"] = "number"
    unit: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class PageTable:
    """A table of the page."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: list[list[Cell]]

    def document(self) -> dict[str, Any]:
        """The table as plain data."""
        return {"id": self.id, "title": self.title, "columns": [asdict(c) for c in self.columns], "rows": self.rows}

    def filled(self) -> PageTable:
        """The same without columns in which nothing is known."""
        known = [at for at in range(len(self.columns)) if any(row[at] is not None for row in self.rows)]
        columns = tuple(self.columns[at] for at in known)
        return replace(self, columns=columns, rows=[[row[at] for at in known] for row in self.rows])


def time_column(name: str) -> Column:
    """Seconds, shown in milliseconds."""
    return Column(name, name, unit="ms", scale=1e3)


def percent(key: str, title: str) -> Column:
    """A share, shown in per cent."""
    return Column(key, title, unit="%", scale=100.0)


def factor_columns(data: ReportData, names: Sequence[str]) -> list[Column]:
    """The columns of these factors."""
    return [_factor(data, name) for name in names]


def _factor(data: ReportData, name: str) -> Column:
    values: list[Level] = [group.factors[name] for group in data.analysis.groups if name in group.factors]
    numeric = bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return Column(name, name, "number" if numeric else "text")


def cell(value: object) -> Cell:
    """A value as JSON can hold it; NaN is missing.

    >>> cell(float("nan")), cell(0.1234567890123), cell(True)
    (None, 0.123456789, 'True')
    """
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float):
        return float(f"{plain:.{DIGITS}g}") if math.isfinite(plain) else None
    if plain is None or (isinstance(plain, int) and not isinstance(plain, bool)):
        return plain
    return str(plain)

"""What single kinds of trials add to the tables: columns of `trials`, and tables of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from steplab import kinds
from steplab.core.record import Record
from steplab.kinds.base import Table

ARROW = {int: pa.int32(), float: pa.float64(), str: pa.string()}


@cache
def table_names() -> tuple[str, ...]:
    """The tables that kinds add.

    >>> table_names()
    ('epochs',)
    """
    return tuple(_tables())


def kind_row(record: Record) -> dict[str, Any]:
    """The columns of `trials` that kinds add; NaN where the record is of another kind."""
    return dict(_unknown()) | kinds.named(record.kind).row(record)


def kind_tables(good: Sequence[Record]) -> dict[str, pa.Table]:
    """The tables that kinds add, of these records."""
    return {name: _filled(table, good) for name, table in _tables().items()}


@cache
def _unknown() -> dict[str, float]:
    return {column: math.nan for kind in kinds.every() for column in kind.columns}


@cache
def _tables() -> dict[str, Table]:
    return {name: table for kind in kinds.every() for name, table in kind.tables.items()}


def _filled(table: Table, good: Sequence[Record]) -> pa.Table:
    rows = [(record.trial, row) for record in good for row in table.rows(record)]
    columns = {"trial": pa.array([trial for trial, _ in rows], pa.string())}
    for name, plain in table.columns.items():
        columns[name] = pa.array([getattr(row, name) for _, row in rows], ARROW[plain])
    return pa.table(columns)

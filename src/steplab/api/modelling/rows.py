"""The rows and columns that a model is fitted to: of a study, a table in memory, or a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from steplab.api.modelling.network_terms import ProfileSource, asked_roles, network_terms, with_exchange
from steplab.api.study_data import StudyData
from steplab.models.columns.roles import Roles
from steplab.models.columns.training_rows import Chosen, choose
from steplab.store.source import Source, clean_name, frame_source, read_source, study_source

Columns = str | Sequence[str]  # one name, or several
RowSource = StudyData | Path | str | pd.DataFrame  # a study, its folder, a CSV or Parquet file, a table


def listed(names: Columns) -> tuple[str, ...]:
    """Names as a tuple; a text is one name.

    >>> listed("workers"), listed(["workers", "batch_size"])
    (('workers',), ('workers', 'batch_size'))
    """
    return (names,) if isinstance(names, str) else tuple(names)


def columns(names: Columns) -> tuple[str, ...]:
    """Column names, cleaned as a table's header is.

    >>> columns("Batch Size [images]")
    ('batch_size',)
    """
    return tuple(clean_name(name) for name in listed(names) if name.strip())


def training_rows(
    source: RowSource, target: str | None, intrinsic: Columns, categorical: Columns, extrinsic: Columns,
    network: ProfileSource | None = None,
) -> Chosen:  # fmt: skip
    """The rows and columns that are asked for, and what was assumed about them."""
    table = table_of(source)
    asked = Roles(columns(intrinsic), columns(categorical), columns(extrinsic))
    if network is not None:
        table, asked = with_exchange(table, network_terms(table, network)), asked_roles(asked)
    chosen = choose(table.frame, None if target is None else clean_name(target), asked, table.group, table.factors)
    used = {*chosen.roles.columns, str(chosen.y.name)}
    reading = tuple(note for note in table.notes if any(f"'{name}'" in note for name in used))
    return replace(chosen, notes=reading + chosen.notes)


def table_of(source: RowSource) -> Source:
    """The rows of a study, a table in memory, or a file."""
    if isinstance(source, pd.DataFrame):
        return frame_source(source)
    if isinstance(source, Path | str):
        return read_source(Path(source))
    return study_source(source.tables, source.folder)

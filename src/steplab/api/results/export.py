"""Writing a study's tables to files, a trial's timeline, or other programs' run stores."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet

from steplab.api.study_data import StudyData
from steplab.core.errors import InputError, allowed, nearest
from steplab.core.parsing import parsing
from steplab.core.record import Record
from steplab.core.trial import describe
from steplab.store import records
from steplab.store.foreign.extrap import extrap_text
from steplab.store.foreign.imported import must_be_free
from steplab.store.foreign.mlflow import write_mlflow
from steplab.store.foreign.tensorboard import write_tensorboard
from steplab.store.foreign.trace import trace_json
from steplab.store.paths import StudyFolder
from steplab.store.spreadsheet import defused


@dataclass(frozen=True)
class Export:
    """What an export wrote: where, which table, a sentence on it, and what more is known of it."""

    path: Path
    table: str
    sentence: str
    about: Mapping[str, Any]
    next: str = ""  # how to look at it

    def document(self) -> dict[str, Any]:
        """What `steplab export --json` prints."""
        return {"file": str(self.path), "table": self.table, **self.about}


@dataclass(frozen=True)
class _Order:
    """What is to be exported, and where to."""

    data: StudyData
    to: Path
    table: str
    trial: str


Writer = Callable[[_Order], Export]


def export(data: StudyData, to: Path | str, table: str = "trials", trial: str = "") -> Export:
    """Write one of the tables of a study, or the timeline of one of its trials for Perfetto and chrome://tracing.

    Args:
        data: The study.
        to: FILE.csv, FILE.parquet, FILE.json (a timeline), `mlflow:DIR`, `tensorboard:DIR` or `extrap:FILE`.
        table: trials, iterations, layers, epochs, or trace for a timeline.
        trial: Of a timeline: the trial's id, by default the one with the highest throughput.
    """
    scheme, colon, rest = str(to).partition(":")
    if not (colon and len(scheme) > 1 and scheme.isalpha()):  # a path
        scheme, rest = "", str(to)
    writer = _writer(str(to), table, trial, scheme)
    if not rest:
        raise InputError("names no place", where=str(to), hint=f"write {scheme}:DIR")
    with parsing("cannot be exported", str(data.folder)):
        return writer(_Order(data, Path(rest), table, trial))


def _writer(to: str, table: str, trial: str, scheme: str) -> Writer:
    """Who writes what was asked for; a mistake is said before anything is read."""
    stores: dict[str, Writer] = {"mlflow": _mlflow, "tensorboard": _tensorboard, "extrap": _extrap}
    files: dict[str, Writer] = {".csv": _file, ".parquet": _file, ".json": _trace, ".extrap.txt": _extrap}
    if scheme and scheme not in stores:
        raise InputError(f"there is no export {scheme!r}", where=to, hint=nearest(scheme, stores))
    ending = next((ending for ending in files if to.endswith(ending)), "")
    if not scheme and not ending:
        raise InputError(f"{Path(to).name!r} has no known ending", hint=allowed([*files, *stores]))
    writer = stores[scheme] if scheme else files[ending]
    if (writer is _trace) != (table == "trace"):
        hint = "export the table 'trace' to FILE.json"
        raise InputError("a trace goes into a .json file, and only a trace", where=to, hint=hint)
    if writer not in (_file, _trace) and table != "trials":
        raise InputError(f"takes the table trials, not {table!r}", where=to)
    if trial and writer is not _trace:
        raise InputError("goes with the table 'trace' only", where=f"trial {trial}")
    return writer


def _must_have_parent(to: Path) -> None:
    if not to.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=str(to.parent), hint="make it first")


def _file(order: _Order) -> Export:
    _must_have_parent(order.to)
    table = order.data.tables.table(order.table)
    content = io.BytesIO()
    if order.to.suffix == ".csv":
        pyarrow.csv.write_csv(defused(table), content)
    else:
        pyarrow.parquet.write_table(table, content)
    records.write_file(order.to, content.getvalue())
    about = {"rows": table.num_rows, "columns": table.column_names}
    return Export(order.to, order.table, f"{table.num_rows} rows of {order.table} in {order.to}", about)


def _trace(order: _Order) -> Export:
    _must_have_parent(order.to)
    record, why = _chosen(order)
    records.write_file(order.to, trace_json(record))
    sentence = f"timeline of trial {record.trial} ({why}: {describe(record.config)}) in {order.to}"
    about = {"trial": record.trial, "why": why, "ranks": len(record.ranks), "config": record.config}
    hint = "open it in https://ui.perfetto.dev or chrome://tracing"
    return Export(order.to, order.table, sentence, about, hint)


def _chosen(order: _Order) -> tuple[Record, str]:
    """The record that was asked for, or the one with the highest throughput; where none is known, the shortest step."""
    place = StudyFolder(order.data.folder)
    if order.trial and order.trial not in records.done(place):
        hint = "the column trial of the table trials lists the ids"
        raise InputError(f"there is no trial {order.trial!r}", where=str(order.data.folder), hint=hint)
    if order.trial:
        record = records.read_record(place, order.trial)
        if record.status != "ok":
            raise InputError(f"the trial has no timeline, it is {record.status}", where=f"trial {order.trial}")
        return record, "as asked"
    trials = order.data.tables.trials
    measured = "throughput" in trials  # a study of failures has no such column
    ok = trials[(trials["status"] == "ok") & trials["t_iter"].notna()] if measured else trials[:0]
    if not len(ok):
        raise InputError("no trial has been measured", where=str(order.data.folder))
    best = ok.sort_values(["throughput", "t_iter", "trial"], ascending=[False, True, True])["trial"].iloc[0]
    why = "the highest throughput" if ok["throughput"].notna().any() else "the shortest step"
    return records.read_record(place, str(best)), why


def _mlflow(order: _Order) -> Export:
    must_be_free(order.to)
    runs = write_mlflow(order.data.tables, order.data.folder.absolute().name, order.to)
    hint = f"MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {order.to}"
    return Export(order.to, order.table, f"{runs} runs in {order.to}", {"rows": runs}, hint)


def _tensorboard(order: _Order) -> Export:
    must_be_free(order.to)
    runs = write_tensorboard(order.data.tables, order.to)
    hint = f"tensorboard --logdir {order.to}"
    return Export(order.to, order.table, f"{runs} runs in {order.to}", {"rows": runs}, hint)


def _extrap(order: _Order) -> Export:
    _must_have_parent(order.to)
    written = extrap_text(order.data.tables, as_lines=order.to.suffix == ".jsonl")
    records.write_file(order.to, written.text.encode())
    sentence = f"{written.points} points of {', '.join(written.parameters)} in {order.to}"
    about = {"rows": written.points, "columns": written.parameters}
    return Export(order.to, order.table, sentence, about, f"extrap --text {order.to}")

"""Write a study's tables to files, a trial's timeline, or other programs' run stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json

if TYPE_CHECKING:
    from steplab.core.record import Record

app = command_app()
KINDS = "FILE.csv, FILE.parquet, FILE.json (trace), mlflow:DIR, tensorboard:DIR, extrap:FILE"


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    to: Annotated[str, typer.Option(metavar="WHERE", help=f"Where to: {KINDS}.")],
    table: Annotated[str, typer.Option(help="trials, iterations, layers, epochs, or trace.")] = "trials",
    trial: Annotated[str, typer.Option(help="Of trace: the trial's id; by default the fastest one.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Write one of the tables of a study, or the timeline of one of its trials for Perfetto and chrome://tracing.

    Example: steplab export runs/demo --table trace --to trace.json
    """
    wish = _Wish(folder, to, table, trial)
    scheme, colon, rest = to.partition(":")
    written = _writer(wish, scheme if colon and len(scheme) > 1 else "")(
        wish, Path(rest) if colon and rest else Path(to)
    )
    if as_json:
        print_json({"file": written.file, "table": table, **written.about})
        return
    console().print(written.sentence, markup=False, soft_wrap=True)
    if written.next:
        next_step(written.next)


@dataclass(frozen=True)
class _Wish:
    folder: Path
    to: str
    table: str
    trial: str


@dataclass(frozen=True)
class _Written:
    """What an export made, for people and for `--json`."""

    file: str
    sentence: str
    about: dict[str, Any]
    next: str = ""


Writer = Callable[[_Wish, Path], _Written]


def _writer(wish: _Wish, scheme: str) -> Writer:
    """Who writes what was asked for; a mistake is said before anything is read."""
    from steplab.core.errors import InputError, allowed, nearest

    stores: dict[str, Writer] = {"mlflow": _mlflow, "tensorboard": _tensorboard, "extrap": _extrap}
    files: dict[str, Writer] = {".csv": _file, ".parquet": _file, ".json": _trace, ".extrap.txt": _extrap}
    if scheme and scheme not in stores:
        raise InputError(f"there is no export {scheme!r}", where="--to", hint=nearest(scheme, stores))
    ending = next((ending for ending in files if wish.to.endswith(ending)), "")
    if not scheme and not ending:
        raise InputError(f"{Path(wish.to).name!r} has no known ending", where="--to", hint=allowed([*files, *stores]))
    writer = stores[scheme] if scheme else files[ending]
    if (writer is _trace) != (wish.table == "trace"):
        hint = "write --table trace --to FILE.json"
        raise InputError("a trace goes into a .json file, and only a trace", where=f"--to {wish.to}", hint=hint)
    if writer not in (_file, _trace) and wish.table != "trials":
        raise InputError(f"takes the table trials, not {wish.table!r}", where=f"--to {wish.to}", hint="--table trials")
    if wish.trial and writer is not _trace:
        raise InputError("goes with --table trace only", where="--trial")
    return writer


def _must_have_parent(to: Path) -> None:
    from steplab.core.errors import InputError

    if not to.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=f"--to {to.parent}", hint="make it first")


def _file(wish: _Wish, to: Path) -> _Written:
    import io

    import pyarrow.csv
    import pyarrow.parquet

    from steplab.store import records, tables
    from steplab.store.spreadsheet import defused

    _must_have_parent(to)
    made = tables.load(wish.folder).table(wish.table)
    content = io.BytesIO()
    if to.suffix == ".csv":
        pyarrow.csv.write_csv(defused(made), content)
    else:
        pyarrow.parquet.write_table(made, content)
    records.write_file(to, content.getvalue())
    about = {"rows": made.num_rows, "columns": made.column_names}
    return _Written(str(to), f"{made.num_rows} rows of {wish.table} in {to}", about)


def _trace(wish: _Wish, to: Path) -> _Written:
    from steplab.core.trial import describe
    from steplab.store import records
    from steplab.store.foreign.trace import trace_json

    _must_have_parent(to)
    record, why = _chosen(wish)
    records.write_file(to, trace_json(record))
    sentence = f"timeline of trial {record.trial} ({why}: {describe(record.config)}) in {to}"
    about = {"trial": record.trial, "why": why, "ranks": len(record.ranks), "config": record.config}
    return _Written(str(to), sentence, about, "open it in https://ui.perfetto.dev or chrome://tracing")


def _chosen(wish: _Wish) -> tuple[Record, str]:
    """The record that was asked for, or the one with the highest throughput."""
    from steplab.core.errors import InputError
    from steplab.store import records, tables
    from steplab.store.paths import StudyFolder

    place = StudyFolder(wish.folder)
    place.must_exist()
    if wish.trial and wish.trial not in records.done(place):
        hint = "`steplab export DIR --to trials.csv` lists the ids"
        raise InputError(f"there is no trial {wish.trial!r}", where="--trial", hint=hint)
    if wish.trial:
        record = records.read_record(place, wish.trial)
        if record.status != "ok":
            raise InputError(f"the trial has no timeline, it is {record.status}", where=f"--trial {wish.trial}")
        return record, "as asked"
    trials = tables.load(wish.folder).trials
    measured = "throughput" in trials  # a study of failures has no such column
    ok = trials[(trials["status"] == "ok") & trials["throughput"].notna()] if measured else trials[:0]
    if not len(ok):
        raise InputError("no trial has been measured", where=str(wish.folder))
    best = ok.sort_values(["throughput", "trial"], ascending=[False, True])["trial"].iloc[0]
    return records.read_record(place, str(best)), "the highest throughput"


def _mlflow(wish: _Wish, to: Path) -> _Written:
    from steplab.store import tables
    from steplab.store.foreign.imported import must_be_free
    from steplab.store.foreign.mlflow import write_mlflow

    must_be_free(to, "--to")
    runs = write_mlflow(tables.load(wish.folder), wish.folder.absolute().name, to)
    return _Written(
        str(to),
        f"{runs} runs in {to}",
        {"rows": runs},
        f"MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {to}",
    )


def _tensorboard(wish: _Wish, to: Path) -> _Written:
    from steplab.store import tables
    from steplab.store.foreign.imported import must_be_free
    from steplab.store.foreign.tensorboard import write_tensorboard

    must_be_free(to, "--to")
    runs = write_tensorboard(tables.load(wish.folder), to)
    return _Written(str(to), f"{runs} runs in {to}", {"rows": runs}, f"tensorboard --logdir {to}")


def _extrap(wish: _Wish, to: Path) -> _Written:
    from steplab.store import records, tables
    from steplab.store.foreign.extrap import extrap_text

    _must_have_parent(to)
    made = extrap_text(tables.load(wish.folder), as_lines=to.suffix == ".jsonl")
    records.write_file(to, made.text.encode())
    sentence = f"{made.points} points of {', '.join(made.parameters)} in {to}"
    return _Written(str(to), sentence, {"rows": made.points, "columns": made.parameters}, f"extrap --text {to}")

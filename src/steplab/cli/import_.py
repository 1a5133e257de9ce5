"""Make a study's folder from times that other programs measured.

Each format is a subcommand; a new one is one function here, one in steplab/api/sources/imports.py and one file in
steplab/store/foreign.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._import_ncu import register as register_ncu
from steplab.cli._options import levels, listed, pairs
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, shell

app = command_app("Make a study's folder from times that other programs measured.")
OutOption = Annotated[Path | None, typer.Option(metavar="DIR", help="The new folder; by default runs/<name>.")]
SetOption = Annotated[str, typer.Option("--set", help="What the source does not say: batch_size=64,network=resnet50.")]
register_ncu(app)


@app.command()
def kineto(
    places: Annotated[
        list[Path], typer.Argument(metavar="DIR | FILE…", help="torch.profiler traces, one per rank, or their folder.")
    ],
    out: OutOption = None,
    known: SetOption = "",
    as_json: JsonOption = False,
) -> None:
    """Read PyTorch profiler (Kineto) traces, *.json or *.json.gz: one trial, its phases and, if there, its layers.

    The ranks of a run are given as one folder, or file by file.

    Example: steplab import kineto traces/ --set network=resnet50,batch_size=32 --out runs/profiled
    """
    _show(steplab.import_kineto(places, out, levels(known, "--set"), command=_command()), as_json)


@app.command("csv")
def times(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.csv…", help="Tables of times.")],
    out: OutOption = None,
    columns: Annotated[str, typer.Option(help="Which column is what: t_iter=total,batch_size=bs.")] = "",
    unit: Annotated[str, typer.Option(help="Of columns that do not say theirs: s, ms, us, ns.")] = "s",
    factors: Annotated[str, typer.Option(help="The columns that were varied: framework,nodes.")] = "",
    known: SetOption = "",
    as_json: JsonOption = False,
) -> None:
    """Read plain tables of times: a row per iteration or per trial, wide, or long with a column of phases.

    Example: steplab import csv times.csv --unit ms --columns t_iter=total --out runs/theirs
    """
    named = pairs(listed(columns), "--columns", "write a=1,b=2")
    given = levels(known, "--set")
    imported = steplab.import_csv(
        files, out, given, columns=named, unit=unit, factors=listed(factors), command=_command()
    )
    _show(imported, as_json)


@app.command()
def extrap(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Extra-P's text or JSON-lines format.")],
    out: OutOption = None,
    region: Annotated[str, typer.Option(help="The region to read, if several have times.")] = "",
    known: SetOption = "",
    as_json: JsonOption = False,
) -> None:
    """Read measurements in Extra-P's text or JSON-lines format; repeated values are replicates.

    Example: steplab import extrap scaling.extrap.txt --set framework=torch --out runs/theirs
    """
    _show(steplab.import_extrap(file, out, levels(known, "--set"), region=region, command=_command()), as_json)


def _command() -> str:
    """What was typed, for the records."""
    return shlex.join(["steplab", *sys.argv[1:]])


def _show(imported: steplab.ImportedStudy, as_json: bool) -> None:
    """Say what came of it; every subcommand ends here."""
    if as_json:
        print_json(imported.document())
        return
    show, several = console(), f" of up to {imported.ranks} ranks" if imported.ranks > 1 else ""
    show.print(f"{imported.trials} trials, {imported.iterations} iterations{several} in {imported.folder}")
    for note in imported.notes:
        show.print(note, markup=False)
    next_step(shell("steplab", "analyze", imported.folder))

"""Make a study's folder from times that other programs measured.

Each format is a subcommand; a new one is one function here and one file in steplab/store/foreign.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steplab.cli._import_ncu import register as register_ncu
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json

if TYPE_CHECKING:
    from steplab.core.trial import Level
    from steplab.store.foreign.imported import ForeignStudy

app = command_app("Make a study's folder from times that other programs measured.")
OutOption = Annotated[Path | None, typer.Option(metavar="DIR", help="The new folder; by default runs/<name>.")]
SetOption = Annotated[str, typer.Option("--set", help="What the source does not say: batch_size=64,network=resnet50.")]
register_ncu(app)


@app.command()
def kineto(
    place: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with torch.profiler traces, one per rank.")],
    out: OutOption = None,
    said: SetOption = "",
    as_json: JsonOption = False,
) -> None:
    """Read PyTorch profiler (Kineto) traces, *.json or *.json.gz: one trial, its phases and, if there, its layers.

    Example: steplab import kineto traces/ --set network=resnet50,batch_size=32 --out runs/profiled
    """
    from steplab.store.foreign.kineto import read_kineto

    finish(read_kineto(place, _levels(said, "--set")), out, as_json)


@app.command("csv")
def times(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.csv…", help="Tables of times.")],
    out: OutOption = None,
    columns: Annotated[str, typer.Option(help="Which column is what: t_iter=total,batch_size=bs.")] = "",
    unit: Annotated[str, typer.Option(help="Of columns that do not say theirs: s, ms, us, ns.")] = "s",
    factors: Annotated[str, typer.Option(help="The columns that were varied: framework,nodes.")] = "",
    said: SetOption = "",
    as_json: JsonOption = False,
) -> None:
    """Read plain tables of times: a row per iteration or per trial, wide, or long with a column of phases.

    Example: steplab import csv times.csv --unit ms --columns t_iter=total --out runs/theirs
    """
    from steplab.store.foreign.times_csv import Wishes, read_times

    asked = tuple(name.strip() for name in factors.split(",") if name.strip())
    wishes = Wishes(_pairs(columns, "--columns"), unit, asked, _levels(said, "--set"))
    finish(read_times(files, wishes), out, as_json)


@app.command()
def extrap(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Extra-P's text or JSON-lines format.")],
    out: OutOption = None,
    region: Annotated[str, typer.Option(help="The region to read, if several have times.")] = "",
    said: SetOption = "",
    as_json: JsonOption = False,
) -> None:
    """Read measurements in Extra-P's text or JSON-lines format; repeated values are replicates.

    Example: steplab import extrap scaling.extrap.txt --set framework=torch --out runs/theirs
    """
    from steplab.store.foreign.extrap import read_extrap

    finish(read_extrap(file, region, _levels(said, "--set")), out, as_json)


def finish(study: ForeignStudy, out: Path | None, as_json: bool) -> None:
    """Write the folder of an imported study and say what came of it; every subcommand ends here."""
    from steplab.store.foreign.imported import write_study

    folder = out or Path("runs") / study.name
    write_study(study, folder, shlex.join(["steplab", *sys.argv[1:]]))
    ranks = max(len(trial.ranks) for trial in study.trials)
    iterations = sum(len(rank.modes["native"].warmup) for trial in study.trials for rank in trial.ranks)
    if as_json:
        counts = {"trials": len(study.trials), "ranks": ranks, "iterations": iterations}
        print_json({"folder": str(folder), "format": study.format, **counts, "notes": study.notes})
        return
    show = console()
    show.print(f"{len(study.trials)} trials, {iterations} iterations of up to {ranks} ranks in {folder}", markup=False)
    for note in study.notes:
        show.print(note, markup=False)
    next_step(f"steplab analyze {folder}")


def _pairs(text: str, option: str) -> dict[str, str]:
    """`a=b,c=d` as names and values."""
    from steplab.core.errors import InputError

    found = {}
    for part in (part for part in text.split(",") if part.strip()):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"{part.strip()!r} is not NAME=VALUE", where=option, hint="write a=1,b=2")
        found[name.strip()] = value.strip()
    return found


def _levels(text: str, option: str) -> dict[str, Level]:
    """`a=1,b=x` as names and levels."""
    from steplab.core.errors import InputError

    found: dict[str, Level] = {}
    for name, value in _pairs(text, option).items():
        if not name.isidentifier():
            raise InputError(f"{name!r} is not a name", where=option, hint="write batch_size=64")
        found[name] = _level(value)
    return found


def _level(text: str) -> Level:
    from steplab.core.trial import is_plain_level

    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if is_plain_level(value):
            return value
    return text

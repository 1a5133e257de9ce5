"""Options that `fit`, `compare` and `penalty` share: source, target, and which column plays which part."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from steplab.cli._output import sentence

SourceArgument = Annotated[Path, typer.Argument(help="A study's folder, a CSV or a Parquet file.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="Column to model; t_iter by default.")]
IntrinsicOption = Annotated[str, typer.Option("--intrinsic", help="Columns of the network and training: a,b,c.")]
CategoricalOption = Annotated[str, typer.Option("--categorical", help="Columns that hold levels: a,b,c.")]
ExtrinsicOption = Annotated[str, typer.Option("--extrinsic", help="Columns of the scale: batch_size,workers.")]


def again(source: Path, target: str | None, intrinsic: str, categorical: str, extrinsic: str) -> str:
    """The source and the options that were given, for the next command.

    >>> again(Path("t.csv"), "time (ms)", "", "", "workers")
    "t.csv --target 'time (ms)' --extrinsic workers"
    """
    given = {"target": target, "intrinsic": intrinsic, "categorical": categorical, "extrinsic": extrinsic}
    options = [f"--{name} {shlex.quote(value)}" for name, value in given.items() if value]
    return " ".join([shlex.quote(str(source)), *options])


def tell(notes: tuple[str, ...]) -> None:
    """What was assumed, on stderr."""
    for note in notes:
        sentence(f"note: {note}", stderr=True)

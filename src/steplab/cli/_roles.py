"""Options that `fit`, `compare` and `penalty` share: source, target, and which column plays which part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from steplab.models.columns.training_rows import Chosen

SourceArgument = Annotated[Path, typer.Argument(help="A study's folder, a CSV or a Parquet file.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="Column to model; t_iter by default.")]
IntrinsicOption = Annotated[str, typer.Option("--intrinsic", help="Columns of the network and training: a,b,c.")]
CategoricalOption = Annotated[str, typer.Option("--categorical", help="Columns that hold levels: a,b,c.")]
ExtrinsicOption = Annotated[str, typer.Option("--extrinsic", help="Columns of the scale: batch_size,workers.")]


def names(text: str) -> tuple[str, ...]:
    """Column names from a list with commas, cleaned as a table's header is.

    >>> names("Batch Size [images], workers")
    ('batch_size', 'workers')
    """
    from steplab.store.source import clean_name

    return tuple(clean_name(part) for part in text.split(",") if part.strip())


def load(source: Path, target: str | None, intrinsic: str, categorical: str, extrinsic: str) -> Chosen:
    """The rows and columns that the options ask for; what was assumed goes to stderr."""
    from dataclasses import replace

    from steplab.models.columns.roles import Roles
    from steplab.models.columns.training_rows import choose
    from steplab.store.source import clean_name, read_source

    table = read_source(source)
    asked = Roles(names(intrinsic), names(categorical), names(extrinsic))
    chosen = choose(table.frame, None if target is None else clean_name(target), asked, table.group, table.factors)
    used = {*chosen.roles.columns, str(chosen.y.name)}
    reading = tuple(note for note in table.notes if any(f"'{name}'" in note for name in used))
    return replace(chosen, notes=reading + chosen.notes)


def again(source: Path, target: str | None, intrinsic: str, categorical: str, extrinsic: str) -> str:
    """The source and the options that were given, for the next command.

    >>> again(Path("t.csv"), "time (ms)", "", "", "workers")
    "t.csv --target 'time (ms)' --extrinsic workers"
    """
    import shlex

    given = {"target": target, "intrinsic": intrinsic, "categorical": categorical, "extrinsic": extrinsic}
    options = [f"--{name} {shlex.quote(value)}" for name, value in given.items() if value]
    return " ".join([shlex.quote(str(source)), *options])


def tell(notes: tuple[str, ...]) -> None:
    """What was assumed, on stderr."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)

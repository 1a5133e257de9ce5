"""Write a study's tables to files, a trial's timeline, or other programs' run stores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._completion import complete_tables
from steplab.cli._left_out import tell
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json

app = command_app()
KINDS = "FILE.csv, FILE.parquet, FILE.json (trace), mlflow:DIR, tensorboard:DIR, extrap:FILE"


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    to: Annotated[str, typer.Option(metavar="WHERE", help=f"Where to: {KINDS}.")],
    table: Annotated[
        str, typer.Option(help="trials, iterations, layers, epochs, or trace.", autocompletion=complete_tables)
    ] = "trials",
    trial: Annotated[str, typer.Option(help="Of trace: the trial's id; by default the fastest one.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Write one of the tables of a study, or the timeline of one of its trials for Perfetto and chrome://tracing.

    Example: steplab export runs/demo --table trace --to trace.json
    """
    study = steplab.open(folder)
    written = study.export(to, table, trial)
    if not trial:  # the record of one trial needs no tables
        tell(study.unreadable)
    if as_json:
        print_json(written.document())
        return
    console().print(written.sentence, markup=False, soft_wrap=True)
    if written.next:
        next_step(written.next)

"""End the jobs of a study that runs on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, shell

app = command_app()


@app.command()
def cancel(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    as_json: JsonOption = False,
) -> None:
    """End all jobs of a study, those that wait and those that run. Finished trials stay.

    Example: steplab cancel runs/demo
    """
    cancelled = steplab.cancel(folder)
    if as_json:
        print_json(cancelled.document())
        return
    console().print(str(cancelled))
    next_step(shell("steplab", "run", folder / "study.toml", "--out", folder, "--executor", "slurm"))

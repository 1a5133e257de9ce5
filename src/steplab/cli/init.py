"""Write a commented starter study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._completion import complete_frameworks, complete_kinds
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, shell
from steplab.core.trial import kind_names

app = command_app()


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write study.toml.")],
    kind: Annotated[
        str, typer.Option(help=f"What a trial is: {', '.join(kind_names())}.", autocompletion=complete_kinds)
    ] = "step",
    framework: Annotated[
        str,
        typer.Option(
            help="The framework to begin with; synthetic needs no install.", autocompletion=complete_frameworks
        ),
    ] = "torch",
    as_json: JsonOption = False,
) -> None:
    """Write a starter study with a comment on every line: of steps, of trainings or of inference.

    Example: steplab init my-study && steplab run my-study/study.toml --dry-run
    """
    path = steplab.init(folder, kind, framework)
    if as_json:
        print_json({"study": str(path)})
        return
    console().print(f"wrote {path}", markup=False)
    next_step(shell("steplab", "run", path, "--dry-run"))

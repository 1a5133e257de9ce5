"""Framework environments: list, create, add, check."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import steplab
from steplab.cli._completion import complete_frameworks
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, progress_text, table
from steplab.core.errors import InputError

if TYPE_CHECKING:
    from steplab.api.machine.environments import Listed

app = command_app("Isolated framework environments, or an interpreter you already have.")


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List all environments, ready or not.

    Example: steplab env list
    """
    _show(steplab.environments(), as_json)


@app.command()
def create(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="Frameworks, e.g. torch.", autocompletion=complete_frameworks)
    ],
    version: Annotated[str, typer.Option(help="Another version of the framework, in an environment of its own.")] = "",
    packages: Annotated[
        list[str] | None, typer.Option("--with", metavar="PACKAGE", help='A further package, "name==1.2"; repeatable.')
    ] = None,
    called: Annotated[str, typer.Option("--name", help="The environment's name; by default e.g. torch-2.12.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Make the environments of frameworks from the pins that their adapters declare.

    Example: steplab env create torch --version 2.12.0
    """
    from steplab.api.machine.environments import expect_framework

    if len(names) > 1 and (version or packages or called):
        raise InputError("--version, --with and --name go with one framework", where="env create")

    for name in names:
        expect_framework(name)
    rows = []
    for name in names:
        with _elapsed(f"{name}: installing") as say:
            environment = steplab.create_environment(name, say, version=version, packages=packages or (), name=called)
        rows.append(environment)
    _show(rows, as_json)
    if not as_json:
        next_step("steplab run STUDY.toml")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="The environment's name; the framework's own name makes it the default.")],
    python: Annotated[Path, typer.Option(help="The interpreter, e.g. ~/venvs/torch/bin/python.")],
    framework: Annotated[
        str, typer.Option(help="The framework in it; by default NAME.", autocompletion=complete_frameworks)
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Register an interpreter that you already have.

    Example: steplab env add nightly --framework torch --python ~/nightly/bin/python
    """
    _show([steplab.add_environment(name, python, framework)], as_json)


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME…]", help="By default all that were made.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Import each framework in its environment and say whether that works.

    Example: steplab env check
    """
    rows = steplab.check_environments(names or ())
    _show(rows, as_json)
    if not all(row.ready for row in rows):
        raise typer.Exit(1)


@contextmanager
def _elapsed(text: str) -> Iterator[Callable[[str], None]]:
    """A line that counts the time while something takes minutes, only where somebody sees it; news go above it."""
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), progress_text("description"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True, disable=not os.isatty(2)) as progress:
        progress.add_task(text, total=None)
        yield lambda news: progress.console.print(news, markup=False)


def _show(rows: list[Listed], as_json: bool) -> None:
    if as_json:
        print_json({"environments": [asdict(row) for row in rows]})
        return
    cells = [[row.name, row.framework, "yes" if row.ready else "no", row.version, row.reason] for row in rows]
    console().print(table(["name", "framework", "ready", "version", ""], cells, left=5))

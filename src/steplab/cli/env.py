"""Framework environments: list, create, add, check."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table

if TYPE_CHECKING:
    from steplab.runner.environments.registry import Listed

app = command_app("Isolated framework environments, or an interpreter you already have.")


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List all environments, ready or not.

    Example: steplab env list
    """
    from steplab.runner.environments.registry import listing

    _show(listing(), as_json)


@app.command()
def create(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Frameworks, e.g. torch.")],
    as_json: JsonOption = False,
) -> None:
    """Make the environments of frameworks from the pins that their adapters declare.

    Example: steplab env create torch
    """
    from steplab.core.catalogue import framework_names
    from steplab.core.errors import InputError, nearest
    from steplab.runner.environments import registry

    for name in names:
        if name not in framework_names():
            raise InputError(f"there is no framework {name!r}", hint=nearest(name, framework_names()))
    show = console(stderr=True)
    for name in names:
        with show.status(f"{name}: installing, this can take minutes"):
            registry.create(name, lambda text: show.print(text, markup=False))
    _show([one for one in registry.listing() if one.name in names], as_json)
    if not as_json:
        next_step("steplab run STUDY.toml")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="The environment's name; the framework's own name makes it the default.")],
    python: Annotated[Path, typer.Option(help="The interpreter, e.g. ~/venvs/torch/bin/python.")],
    framework: Annotated[str, typer.Option(help="The framework in it; by default NAME.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Register an interpreter that you already have.

    Example: steplab env add nightly --framework torch --python ~/nightly/bin/python
    """
    from steplab.runner.environments import registry

    made = registry.add(name, python.expanduser(), framework or name)
    _show([one for one in registry.listing() if one.name == made.name], as_json)


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME…]", help="By default all that were made.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Import each framework in its environment and say whether that works.

    Example: steplab env check
    """
    from steplab.core.home import home
    from steplab.runner.environments import registry

    made = sorted(path.parent.name for path in (home() / "envs").glob("*/steplab.json"))
    rows = [registry.check(name) for name in names or made]
    _show(rows, as_json)
    if not all(row.ready for row in rows):
        raise typer.Exit(1)


def _show(rows: list[Listed], as_json: bool) -> None:
    if as_json:
        print_json({"environments": [asdict(row) for row in rows]})
        return
    cells = [[row.name, row.framework, "yes" if row.ready else "no", row.version, row.reason] for row in rows]
    console().print(table(["name", "framework", "ready", "version", ""], cells, left=5))

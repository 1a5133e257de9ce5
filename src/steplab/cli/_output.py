"""What commands share: JSON on stdout, tables that fit a terminal, the line on what to do next."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; logs on stderr.")]

ModulesOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where the study's own networks (module:…) are; their code runs.")
]


def command_app(text: str = "") -> typer.Typer:
    """The `app` of a command file: plain help that wraps by itself; with a text, a group of subcommands."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=bool(text), help=text or None)


def print_json(document: object) -> None:
    """Write one JSON document to stdout; NaN and infinities become null."""
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    sys.stdout.write(orjson.dumps(document, option=options).decode() + "\n")
    sys.stdout.flush()


def console(*, stderr: bool = False) -> Console:
    """A console that colours only on a terminal and respects NO_COLOR."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 100
    return Console(stderr=stderr, highlight=False, soft_wrap=False, width=width)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str = "", left: int = 1) -> Table:
    """A plain table; the first `left` columns are text, the others numbers."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i < left else "right", overflow="fold")
    for row in rows:
        made.add_row(*(escape("-" if cell is None else str(cell)) for cell in row))
    return made


def next_step(text: str) -> None:
    """One line on stderr that says what to do next; never broken, so that it can be copied."""
    console(stderr=True).print(f"next: {text}", style="dim", markup=False, soft_wrap=True)

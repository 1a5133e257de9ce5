"""What commands share: JSON on stdout, tables that fit a terminal, the line on what to do next.

Names, levels and reasons are other people's text. None of it is markup, and whatever would steer a terminal is made
visible, once for all commands.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from steplab.cli._streams import Stream, Styled
from steplab.cli._visible import STEERING, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TextColumn
    from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; logs on stderr.")]
NOT_ASCII = re.compile("[^\n -~]")
LONG_WORD = 14  # of a heading that stays whole
ENDLESS = 100_000  # columns of a screen on which everything fits


ModulesOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The folder of one's own code (module:…), which runs.")
]
EnvironmentOption = Annotated[
    str, typer.Option(metavar="NAME", help="The environment in which code of one's own runs, if not torch.")
]


def command_app(text: str = "") -> typer.Typer:
    """The `app` of a command file: plain help that wraps by itself; with a text, a group of subcommands."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=bool(text), help=text or None)


def print_json(document: object) -> None:
    """Write one JSON document to stdout; NaN and infinities become null."""
    import json

    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    try:
        content = orjson.dumps(document, option=options)
    except orjson.JSONEncodeError:
        content = orjson.dumps(_whole(document), option=options)
    unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    coded = (STEERING if unicode else NOT_ASCII).sub(lambda match: json.dumps(match[0])[1:-1], content.decode())
    # json.dumps leaves one control character as it is.
    sys.stdout.write(coded.replace("\x7f", "\\u007f") + "\n")
    sys.stdout.flush()


def _whole(value: object) -> object:
    """The same without halves of signs, which JSON cannot hold."""
    from dataclasses import asdict, is_dataclass

    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return _whole(asdict(value)) if is_dataclass(value) and not isinstance(value, type) else value


def console(*, stderr: bool = False) -> Console:
    """A console for plain text that colours only on a terminal and respects NO_COLOR."""
    from rich.console import Console

    class Plain(Console):
        """What is printed is text: no markup, no emoji codes, nothing that steers the terminal."""

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(visible(text), **options | {"markup": False, "emoji": False})

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 100
    file = cast(IO[str], Styled(stream)) if isinstance(stream, Stream) else None
    return Plain(stderr=stderr, file=file, highlight=False, soft_wrap=False, width=width)


def sentence(text: str, *, stderr: bool = False) -> None:
    """Print a sentence: broken between words on a terminal, in one line where a program reads it."""
    screen = console(stderr=stderr)
    screen.print(text, soft_wrap=not screen.is_terminal)


def fits(drawn: Table) -> bool:
    """Whether a table can be shown with nothing cut."""
    screen = console()
    wide = screen.options.update(width=ENDLESS)
    return screen.measure(drawn, options=wide).maximum <= screen.width


def progress_text(field: str, style: str = "", *, shrinks: bool = False) -> TextColumn:
    """A column of a progress bar: a field of the task as plain text; where the line is too long, one that shrinks."""
    from rich.progress import Task, TextColumn
    from rich.table import Column
    from rich.text import Text

    class Plain(TextColumn):
        def render(self, task: Task) -> Text:
            text = visible(self.text_format.format(task=task))
            return Text(text, style=style, no_wrap=True, overflow="ellipsis")

    return Plain(f"{{task.{field}}}", table_column=Column(no_wrap=not shrinks))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str = "", left: int = 1) -> Table:
    """A plain table for a `console`; the first `left` columns are text, the others numbers."""
    from rich import box
    from rich.table import Table

    drawn = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        # Text gives way first: it can be broken between words, and a number in two lines is another number.
        if i < left:
            word = max(map(len, column.split()), default=1)
            drawn.add_column(column, overflow="fold", min_width=min(word, LONG_WORD))
        else:
            drawn.add_column(column, justify="right", overflow="ellipsis", no_wrap=True)
    for row in rows:
        drawn.add_row(*("-" if cell is None else str(cell) for cell in row))
    return drawn


def filled_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", left: int = 1) -> Table:
    """The same without columns of numbers that are empty in every row."""
    kept = [i for i in range(len(columns)) if i < left or any(row[i] for row in rows)]
    return table([columns[i] for i in kept], [[row[i] for i in kept] for row in rows], title=title, left=left)


def shell(*words: object) -> str:
    """A command as it can be pasted into a shell, whatever blanks its paths have.

    >>> shell("steplab", "analyze", Path("my runs"))
    "steplab analyze 'my runs'"
    """
    return shlex.join(map(str, words))


def next_step(text: str) -> None:
    """One line on stderr that says what to do next; never broken, so that it can be copied."""
    console(stderr=True).print(f"next: {text}", style="dim", soft_wrap=True)

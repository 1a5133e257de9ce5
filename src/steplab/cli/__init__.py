"""The command line: one file per command, found by its name and imported only when it is called.

A command file defines `app`, a `typer.Typer`; its module docstring's first line is the help in the list of
commands. Files whose name begins with an underscore hold what commands share. Other distributions add commands by the
entry points `steplab.commands`. Exit codes: 0 done, 1 an input
is wrong, 2 wrong usage, 3 finished but some trials failed, 130 interrupted.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import difflib
import gc
import importlib
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
import typer.core
import typer.main

from steplab.core.errors import InputError, SteplabError
from steplab.core.extensions import Extension, entry_points, extensions
from steplab.core.parsing import parsing

COLLECT_EVERY = 100_000  # new objects; Python's own 700 look through all that libraries define, again and again
EPILOG = "Example: steplab init my-study && steplab run my-study/study.toml"


def command_files() -> dict[str, Path]:
    """The commands and their files, by name; nothing is imported."""
    files = sorted(Path(__file__).parent.glob("[!_]*.py"))
    return {path.stem.rstrip("_").replace("_", "-"): path for path in files}


def command_extensions() -> Mapping[str, Extension]:
    """The commands that other distributions add, by name, with what is wrong with them."""
    return extensions("command", tuple(command_files()))


def listed() -> dict[str, Path]:
    """All commands that can be called and their files, our own first."""
    usable = ((name, extension) for name, extension in command_extensions().items() if not extension.problem)
    added = {name: extension.file for name, extension in usable if extension.file}
    return command_files() | added


def short_help(path: Path) -> str:
    """The first line of a command file's docstring, read without importing it."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


class Commands(typer.core.TyperGroup):
    """The group of all commands, each imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(listed())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported now."""
        path = command_files().get(cmd_name)
        if path is not None:
            command = typer.main.get_command(importlib.import_module(f"steplab.cli.{path.stem}").app)
        elif cmd_name in command_extensions():
            command = _extension_command(cmd_name)
        else:
            return None
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is asked for; of a name that there is not, the nearest one."""
        unknown = args[0] not in command_files() and args[0] not in command_extensions()
        close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1) if unknown else []
        if close and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands in `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help(path)) for name, path in listed().items()])


def _extension_command(name: str) -> Any:
    """The command of another distribution: its module's `app`, or the `typer.Typer` that its entry point names."""
    file = command_extensions()[name].usable_file()
    with parsing("cannot be used as a command", str(file)):
        loaded = entry_points("steplab.commands")[name].load()
        return typer.main.get_command(getattr(loaded, "app", loaded))


app = typer.Typer(
    cls=Commands, rich_markup_mode=None, no_args_is_help=True, epilog=EPILOG, pretty_exceptions_enable=False,
    help="Measure what a deep-learning step costs, explain it, model it, predict it.",
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        from steplab import __version__

        typer.echo(f"steplab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show it and stop."),
) -> None:
    """Measure what a deep-learning step costs, explain it, model it, predict it."""


def _leave() -> None:
    """Python would look through all tables once more before it ends: half a second for a large study."""
    if "duckdb" not in sys.modules:  # it would complain of what was not let go of
        gc.freeze()


def _forget_no_width() -> None:
    """On a screen of no columns nothing is shown, and what is no number is no width."""
    told = os.environ.get("COLUMNS", "")
    if not (told.isascii() and told.isdigit() and len(told) < 6 and int(told)):
        os.environ.pop("COLUMNS", None)


def _print_error(error: SteplabError) -> None:
    """The error as a document; where stdout takes none, the sentence on stderr and the exit code must do."""
    from steplab.cli._output import print_json

    with contextlib.suppress(SteplabError, SystemExit):
        print_json({"error": str(error)})


def _refused(error: OSError) -> InputError:
    """What the system says of a path that somebody named; of anything else the error itself is raised."""
    if not isinstance(error.filename, str | bytes) or not error.strerror:
        raise error
    return InputError(f"cannot be used ({error.strerror})", where=os.fsdecode(error.filename))


def _readable(text: str) -> str:
    """The text broken between words for whoever reads it on a terminal; what must be copied stays whole."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    """Run the command line; whatever goes wrong becomes one sentence and an exit code."""
    from steplab.cli._streams import guard

    gc.set_threshold(COLLECT_EVERY)
    _forget_no_width()
    atexit.register(_leave)
    guard()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # a full disk may show here only
    except (SteplabError, OSError) as error:
        told = error if isinstance(error, SteplabError) else _refused(error)
        if "--json" in sys.argv:
            _print_error(told)
        print(_readable(f"steplab: {told}"), file=sys.stderr)
        sys.exit(1)
    except SystemExit as end:
        # Typer ends an interrupted command without a word.
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            print("steplab: interrupted", file=sys.stderr)
        raise

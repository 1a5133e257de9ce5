"""The site's own code: a page per command, true because it is made from the command itself.

A page is the hand-written `docs/commands/NAME.md` (purpose, example), if there is one, followed by usage, arguments
and options as the command line declares them. A command that is one new file gets its page with no further work; so
does a new page or decision that `mkdocs.yml` does not name. Pages of the repository's first folder are shown, too.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from steplab.cli import command_files, short_help

DOCS = Path(__file__).parent
FOLDER = "commands"
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_config(config: Any) -> Any:
    """Complete the list of pages."""
    nav = config["nav"]
    named = set(_named(nav))
    more = [page for page in _pages(DOCS.glob("*.md")) if page not in named]
    if more:
        nav.append({"More": more})
    commands = [{name: f"{FOLDER}/{name}.md"} for name in command_files()]
    nav.insert(2, {"Commands": [f"{FOLDER}/index.md", *commands]})
    nav.append({"Decisions": _pages(DOCS.glob("decisions/*.md"))})
    return config


def _named(nav: Any) -> Iterator[str]:
    for entry in nav.values() if isinstance(nav, dict) else nav:
        if isinstance(entry, str):
            yield entry
        else:
            yield from _named(entry)


def _pages(paths: Iterator[Path]) -> list[str]:
    return sorted(path.relative_to(DOCS).as_posix() for path in paths)


def on_files(files: Any, config: Any) -> Any:
    """Give every command without a hand-written page a page, and show those of the repository's first folder."""
    from mkdocs.structure.files import File

    for uri, name in FROM_ROOT.items():
        text = (DOCS.parent / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, uri, content=text))
    have = {file.src_uri for file in files}
    for name, path in command_files().items():
        uri = f"{FOLDER}/{name}.md"
        if uri not in have:
            files.append(File.generated(config, uri, content=f"# steplab {name}\n\n{short_help(path)}\n"))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Add usage and options to a command's page, and the list of commands to their index."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder != FOLDER:
        return markdown
    return f"{markdown.rstrip()}\n\n{index() if name == 'index' else reference(name)}\n"


def index() -> str:
    """All commands with their short help."""
    rows = [f"| [{name}]({name}.md) | {short_help(path)} |" for name, path in command_files().items()]
    return "\n".join(["| command | does |", "|---|---|", *rows])


def reference(name: str) -> str:
    """Usage, arguments and options of a command and of its subcommands."""
    module = importlib.import_module(f"steplab.cli.{command_files()[name].stem}")
    return "\n\n".join(_parts(typer.main.get_command(module.app), f"steplab {name}"))


def _parts(command: Any, path: str) -> Iterator[str]:
    subcommands = getattr(command, "commands", None)
    yield "## Subcommands" if subcommands else "## Usage and options"
    for name, one in (subcommands or {"": command}).items():
        if name:
            yield f"### {path} {name}"
        yield from _explained(one, f"{path} {name}".strip())


def _explained(command: Any, path: str) -> Iterator[str]:
    """Usage, the help text with its example, then arguments and options."""
    context = command.context_class(command, info_name=path)
    yield f"```\n{path} {' '.join(command.collect_usage_pieces(context))}\n```"
    text, _, example = inspect.cleandoc(command.help or "").replace("\b", "").partition("Example: ")
    yield text.strip()
    if example:
        yield f"Example:\n\n```\n{example.strip()}\n```"
    records = [one.get_help_record(context) for one in command.get_params(context)]
    rows = [f"| `{name}` | {_cell(help_text)} |" for name, help_text in filter(None, records)]
    yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")

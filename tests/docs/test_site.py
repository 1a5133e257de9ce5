"""The site builds without a complaint, holds every page and command, and loads nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from steplab.cli import app, command_files

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; `strict` in mkdocs.yml turns every warning (dead link, page left out) into a failure."""
    folder = tmp_path_factory.mktemp("site")
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """The code that makes the commands' pages."""
    spec = importlib.util.spec_from_file_location("site_commands", ROOT / "docs" / "_commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_has_every_page_and_every_command(site: Path) -> None:
    wanted = {page.with_suffix(".html") for page in PAGES} | {Path(f"commands/{name}.html") for name in command_files()}
    assert [str(page) for page in sorted(wanted) if not (site / page).is_file()] == []


def test_every_page_is_in_the_menu_of_the_first(site: Path) -> None:
    home = (site / "index.html").read_text()
    wanted = [f"commands/{name}.html" for name in command_files()] + [str(page.with_suffix(".html")) for page in PAGES]
    sections = [name for name in wanted if f'href="{name}"' not in home and "index" not in name]
    assert not sections


@pytest.mark.parametrize("name", ["contributing", "changelog"])
def test_pages_of_the_first_folder_are_shown(name: str, site: Path) -> None:
    assert (site / f"{name}.html").is_file()
    assert f'href="{name}.html"' in (site / "index.html").read_text()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not re.findall(r'<(?:script|img|iframe|source)[^>]+src="(?:https?:)?//[^"]*"', text), page
        assert not re.findall(r'<link[^>]+rel="stylesheet"[^>]+href="(?:https?:)?//[^"]*"', text), page


def told(*words: str) -> tuple[set[str], list[str]]:
    """The options and the subcommands that `--help` shows."""
    shown = CliRunner().invoke(app, [*words, "--help"]).output
    subcommands = re.findall(r"^  ([a-z][a-z-]*) ", shown.partition("Commands:")[2], re.M)
    return set(re.findall(r"^  (--[a-z][a-z-]*)", shown, re.M)), subcommands


@pytest.mark.parametrize("name", command_files())
def test_a_commands_page_shows_every_option_of_its_help(name: str, pages: ModuleType) -> None:
    text = pages.reference(name)
    options, subcommands = told(name)
    for subcommand in subcommands:
        part = text.partition(f"### steplab {name} {subcommand}\n")[2].partition("\n### ")[0]
        assert part, f"{name} {subcommand} has no section"
        assert not [one for one in told(name, subcommand)[0] if f"| `{one}" not in part]
    if not subcommands:
        assert {"--json", "--help"} <= options
        assert not [one for one in options if f"| `{one}" not in text]


def test_a_command_without_a_page_of_its_own_gets_one(pages: ModuleType) -> None:
    handmade = {path.stem for path in (ROOT / "docs" / "commands").glob("*.md")}
    assert handmade - {"index"} <= set(command_files()), "a page of a command that is no more"
    assert all(f"[{name}]({name}.md)" in pages.index() for name in command_files())

"""The version stands in one place; the changelog, the command line and the built package follow it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import steplab as package

ROOT = Path(__file__).parents[2]
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}  # of Keep a Changelog
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def releases() -> list[tuple[int, ...]]:
    """The released versions, in the order of the changelog."""
    return [tuple(map(int, found.split("."))) for found in re.findall(r"^## \[(\d+\.\d+\.\d+)\]", CHANGELOG, re.M)]


def test_the_package_is_built_with_the_version_of_the_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    source = (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text()
    assert re.findall(r'^__version__ = "(.+)"$', source, re.M) == [package.__version__]


def test_the_version_is_written_once() -> None:
    files = [*ROOT.glob("*.toml"), *(ROOT / "src").rglob("*.py"), ROOT / "mkdocs.yml", ROOT / "Makefile"]
    holding = [path for path in files if package.__version__ in path.read_text()]
    assert [path.relative_to(ROOT).as_posix() for path in holding] == ["src/steplab/__init__.py"]


def test_the_command_line_shows_the_version(steplab: Callable[..., Any]) -> None:
    assert steplab("--version").out.strip() == f"steplab {package.__version__}"


def test_the_version_is_the_newest_release_or_on_the_way_to_the_next() -> None:
    number, _, stage = package.__version__.partition(".dev")
    version = tuple(map(int, number.split(".")))
    newest = releases()[0]
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)^## ", CHANGELOG, re.M | re.S)
    assert unreleased, "the changelog has no section [Unreleased]"
    if "- " in unreleased[1]:
        assert stage == "0", "there are unreleased changes: the version ends in .dev0"
        assert version > newest
    else:
        assert not stage
        assert version == newest


def test_releases_are_dated_and_go_backward() -> None:
    headings = re.findall(r"^## (.+)$", CHANGELOG, re.M)
    assert headings[0] == "[Unreleased]"
    assert releases() == sorted(releases(), reverse=True)
    dates = [date.fromisoformat(heading.partition(" - ")[2]) for heading in headings[1:]]
    assert dates == sorted(dates, reverse=True)
    assert len(dates) == len(releases())


def test_changes_are_sorted_as_keep_a_changelog_has_it() -> None:
    assert set(re.findall(r"^### (.+)$", CHANGELOG, re.M)) <= SECTIONS

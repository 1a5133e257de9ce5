"""Documentation is tested: every command explains itself with an example, every link leads somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steplab.cli import command_files, listed, short_help
from steplab.core import catalogue

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("name", listed())
def test_every_command_has_help_with_an_example(name: str, steplab: Callable[..., Any]) -> None:
    assert short_help(listed()[name]).endswith(".")
    text = steplab(name, "--help").out
    subcommands = re.findall(r"^  ([a-z][a-z-]*) ", text.partition("Commands:")[2], re.M)
    for subcommand in subcommands or [""]:
        shown = steplab(*filter(None, (name, subcommand)), "--help").out
        assert f"Example: steplab {name}" in shown, f"steplab {name} {subcommand} --help has no example"
        assert "--json" in shown, f"steplab {name} {subcommand} has no --json"


def test_help_lists_every_command(steplab: Callable[..., Any]) -> None:
    text = steplab("--help").out
    assert all(re.search(rf"^  {name} ", text, re.M) for name in listed())


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = [target for target in links(page) if not (page.parent / target).exists()]
    assert not dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"(?:`|\$ )steplab ([a-z][a-z-]+)", text))
    added = set(re.findall(r'title="src/steplab/cli/([a-z]+)\.py"', text))  # an example of how to add one
    assert named - added <= set(command_files())


def test_every_page_that_the_code_cites_exists() -> None:
    cited = {(page, source) for source in SOURCES for page in re.findall(r"docs/[\w/-]+\.md", source.read_text())}
    assert [pair for pair in cited if not (ROOT / pair[0]).exists()] == []


def test_no_merge_is_left_half_done() -> None:
    texts = {*PAGES, *SOURCES, *(ROOT / "tests").rglob("*.py"), *ROOT.glob("*.toml"), *ROOT.glob("*.yml")}
    assert [path.name for path in texts if re.search(r"^(?:<{7}|>{7}) ", path.read_text(), re.M)] == []


def test_nothing_outside_of_the_repository_is_cited() -> None:
    others = [*(ROOT / "tests").rglob("*.md"), *(ROOT / "benchmarks").glob("*.py")]
    assert [path.name for path in (*PAGES, *SOURCES, *others) if re.search(r"\b[Ff]acts, \d", path.read_text())] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_every_module_says_what_it_is(source: Path) -> None:
    assert ast.get_docstring(ast.parse(source.read_text()))


def test_the_worker_keeps_to_the_syntax_of_python_3_8() -> None:
    for source in (ROOT / "src" / "steplab_worker").rglob("*.py"):
        ast.parse(source.read_text(), feature_version=(3, 8))


def test_every_decision_has_a_number_of_its_own() -> None:
    """Two branches may take the same one; then whoever cites it cites both."""
    pages = sorted((ROOT / "docs/decisions").glob("0*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert len(set(numbers)) == len(numbers)
    assert [page.read_text().partition(".")[0] for page in pages] == [f"# {number}" for number in numbers]


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    reasons = (ROOT / "docs" / "dependencies.md").read_text()
    names = [re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]]
    assert [name for name in names if name not in reasons] == []


def test_the_page_on_security_says_what_listens_in_every_framework() -> None:
    page = (ROOT / "docs/security.md").read_text()
    rows = {row.split("|")[1].strip(): row for row in page.splitlines() if row.startswith("| ")}
    for name in catalogue.framework_names():
        framework = catalogue.framework(name)
        if framework.doors:
            assert framework.doors in rows[framework.title], f"docs/security.md does not say what listens in {name}"


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs/commands/index.md").read_text()
    codes = ("0 done", "1 a study", "2 wrong usage", "3 finished", "130 interrupted")
    assert [code for code in codes if code not in page] == []

"""Every file, folder and module of ours that a page names is there, however short the page calls it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# A page may leave out where the packages are.
FROM = (ROOT, SRC, SRC / "steplab", SRC / "steplab_worker", ROOT / "docs")
NAMED = re.compile(r"`([\w<>.-]+(?:/[\w<>.-]+)+|[\w<>-]+\.(?:py|js))`")
FOLDER = re.compile(r"`((?:src|tests|docs|benchmarks|studies)/(?:[\w-]+/)*)`")
SUFFIXES = (".py", ".js", ".css", ".html", ".svg", ".toml", ".md")
# Files of users, of study folders and of other programs.
OTHERS = re.compile(r"(?:runs|records|checkpoints|my[-_]\w+)/.*|numpy\.py|launch\.py")
PLACEHOLDER = re.compile(r"NAME|NNNN|<\w+>")


def named(page: Path) -> Iterator[str]:
    """What a page names as a file of the repository; a file that does not exist yet counts as its folder."""
    text = page.read_text()
    for path in NAMED.findall(text):
        if path.endswith(SUFFIXES) and not OTHERS.fullmatch(path):
            yield (
                path[: path.rindex("/", 0, open_place.start() + 1)]
                if (open_place := PLACEHOLDER.search(path))
                else path
            )
    yield from FOLDER.findall(text)


def exists(path: str, page: Path) -> bool:
    """Whether the path leads somewhere; a bare name must be that of a file in the source tree or of the page's own."""
    if "/" not in path:
        return any(SRC.rglob(path)) or (page.parent / path).exists() or f'/{path}"' in page.read_text()
    return any((place / path).exists() for place in FROM) or f'title="{path}"' in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    assert [path for path in named(page) if not exists(path, page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_in_a_command_of_pytest_or_python_exists(page: Path) -> None:
    commands = re.findall(r"(?:(?<!`)`|\$ |^)(?:pytest|python) [^`\n]+", page.read_text(), re.M)
    paths = [word for command in commands for word in re.findall(r"(?:src|tests|benchmarks)/[\w./]+", command)]
    assert [path for path in paths if not (ROOT / path).exists() and "NAME" not in path] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    modules = re.findall(r"\b(steplab(?:_worker)?(?:\.[a-z_]+)+)", page.read_text())
    rooms = {folder.name for folder in (SRC / "steplab").iterdir() if (folder / "__init__.py").exists()}
    # `steplab.run` is a function, `steplab.models.base` a module, and a module's own names are not looked at.
    inner = [name.split(".") for name in modules if name.startswith("steplab_worker.") or name.split(".")[1] in rooms]
    assert [name for name in inner if not is_module(name)] == []


def is_module(parts: list[str]) -> bool:
    """Whether a dotted name is a module, a package, or a name in one."""
    path = SRC.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").exists() or path.parent.with_suffix(".py").exists()


def test_the_paths_of_a_page_are_seen() -> None:
    """The pages that tell the way through the house name many files, or this test looks at nothing."""
    assert len(set(named(ROOT / "CONTRIBUTING.md"))) > 10

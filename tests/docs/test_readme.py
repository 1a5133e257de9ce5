"""The README's tree is the real one, and the README has the parts that a newcomer looks for, in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
INDENT = 2


def tree_lines() -> list[str]:
    """The lines of the annotated tree."""
    (block,) = re.findall(r"^```\n(src/steplab/.*?)^```$", README, re.M | re.S)
    return block.splitlines()


def named_folders() -> Iterator[Path]:
    """The folders in the tree; a line may name several beside each other."""
    above: dict[int, Path] = {}
    for line in tree_lines():
        depth = (len(line) - len(line.lstrip())) // INDENT
        names, _, _ = line.strip().partition("  ")
        for name in names.split():
            above[depth] = above[depth - 1] / name if depth else Path(name)
            yield above[depth]


def packages() -> set[Path]:
    """The packages under src."""
    inits = (ROOT / "src").rglob("__init__.py")
    return {path.parent.relative_to(ROOT) for path in inits}


def test_everything_in_the_tree_is_there() -> None:
    assert [str(path) for path in named_folders() if not (ROOT / path).is_dir()] == []


def test_every_package_is_in_the_tree() -> None:
    assert {str(path) for path in packages() - set(named_folders())} == set()


def test_every_line_of_the_tree_is_explained() -> None:
    alone = "torch/ tensorflow/ jax/ mxnet/ chainer/ velox/ onnxruntime/"  # names that everybody knows
    assert [line for line in tree_lines() if "  " not in line.strip() and line.strip() != alone] == []


def test_no_folder_is_in_the_tree_twice() -> None:
    folders = list(named_folders())
    assert len(folders) == len(set(folders))


def test_the_parts_stand_in_their_order() -> None:
    parts = ["# steplab\n\nA laboratory", "![", "## A session", "## Where things are", "## Goals and non-goals"]
    places = [README.index(part) for part in parts]
    assert places == sorted(places)


def test_the_platforms_are_said() -> None:
    (said,) = re.findall(r"\*\*Platforms\.\*\*(.*?)\n\n", README, re.S)
    assert all(system in said for system in ("Linux", "WSL", "macOS", "CUDA"))


def test_the_session_has_ten_lines() -> None:
    (session,) = re.findall(r"^## A session\n```\n(.*?)^```$", README, re.M | re.S)
    assert len(session.splitlines()) == 10


def test_the_python_session_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steplab: Callable[..., Any]) -> None:
    (session,) = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    assert len([line for line in session.splitlines() if line]) == 4  # the import, and three lines
    assert steplab("init", "my-study", "--framework", "synthetic").code == 0
    monkeypatch.chdir(tmp_path)
    exec(session, {})
    assert (tmp_path / "runs" / "my-study" / "records").is_dir()

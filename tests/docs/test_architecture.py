"""The picture of the house shows the floors that import-linter holds, and its numbers are those of the page."""

from __future__ import annotations

import re
import tomllib
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PICTURE = (ROOT / "docs" / "images" / "house.svg").read_text()
LINTED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def drawn_floors() -> list[set[str]]:
    """The rooms of the picture, floor by floor, from the roof down."""
    rooms = re.findall(r'<text class="room" x="\d+" y="(\d+)"[^>]*>(\w+)</text>', PICTURE)
    rooms.sort(key=lambda room: int(room[0]))
    return [{name for _, name in floor} for _, floor in groupby(rooms, key=lambda room: room[0])]


def held_floors() -> list[set[str]]:
    """The layers that are linted, and the worker below them."""
    (contract,) = (contract for contract in LINTED if contract["name"] == "Imports go downward only")
    layers = [re.findall(r"steplab\.(\w+)", layer) for layer in contract["layers"]]
    return [*map(set, layers), {"steplab_worker"}]


def test_the_picture_has_the_floors_that_are_held() -> None:
    assert drawn_floors() == held_floors()


def test_every_package_of_the_laboratory_is_on_a_floor() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "steplab").glob("*/__init__.py")}
    assert packages == set().union(*held_floors()[:-1])


def test_the_steps_of_the_picture_are_those_of_the_page() -> None:
    steps = re.findall(r"^\*\*(\d+)\. ", PAGE, re.M)
    assert steps == [str(number) for number in range(1, len(steps) + 1)]
    assert sorted(re.findall(r'class="number"[^>]*>(\d+)<', PICTURE), key=int) == steps


def test_every_step_names_files() -> None:
    steps = re.split(r"^\*\*\d+\. ", PAGE, flags=re.M)[1:]
    assert all(re.search(r"`[\w/]+\.py`", step) for step in steps)


def test_the_picture_loads_nothing() -> None:
    assert not re.search(r"(?:href|src)=|url\((?!#)|<script|@import", PICTURE)

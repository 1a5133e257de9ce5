"""An open directory: whatever is done in it stays in it, and files appear whole or not at all."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from steplab.core import atomic
from steplab.core.errors import InputError
from steplab.store.directory import Directory


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What a stranger's links point to."""
    place = tmp_path / "outside"
    (place / "inner").mkdir(parents=True)
    (place / "file").write_text("mine")
    return place


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    """An open directory."""
    (tmp_path / "folder").mkdir()
    with Directory.at(tmp_path / "folder") as opened:
        yield opened


def names(directory: Directory) -> list[str]:
    return [path.name for path in directory.path.iterdir()]


def test_a_link_to_a_directory_is_not_entered(directory: Directory, outside: Path) -> None:
    (directory.path / "link").symlink_to(outside)
    with pytest.raises(InputError, match=r"link: is a symbolic link; steplab follows no links"):
        directory.inner("link")


def test_a_link_to_a_file_is_not_read(directory: Directory, outside: Path) -> None:
    (directory.path / "link").symlink_to(outside / "file")
    with pytest.raises(InputError, match="link: is a symbolic link, not a regular file"):
        directory.read("link", 100)


def test_what_is_written_replaces_a_link(directory: Directory, outside: Path) -> None:
    (directory.path / "name").symlink_to(outside / "file")
    directory.write("name", b"new")
    assert directory.read("name", 100) == b"new"
    assert (outside / "file").read_text() == "mine"


def test_the_first_of_two_writers_stays(directory: Directory) -> None:
    assert directory.write_first("name", b"first")
    assert not directory.write_first("name", b"second")
    assert directory.read("name", 100) == b"first"
    assert names(directory) == ["name"]


def test_a_link_counts_as_the_first_writer(directory: Directory, outside: Path) -> None:
    (directory.path / "name").symlink_to(outside / "missing")
    assert not directory.write_first("name", b"second")
    assert not (outside / "missing").exists()


def test_removing_a_link_leaves_what_it_points_to(directory: Directory, outside: Path) -> None:
    (directory.path / "link").symlink_to(outside)
    directory.remove_tree("link")
    assert (outside / "inner").is_dir()
    directory.remove("link")
    assert (outside / "inner").is_dir() and not names(directory)


def test_removing_a_tree_leaves_what_its_links_point_to(directory: Directory, outside: Path) -> None:
    (directory.path / "tree").mkdir()
    (directory.path / "tree" / "link").symlink_to(outside)
    directory.remove_tree("tree")
    assert not names(directory)
    assert (outside / "file").read_text() == "mine"


def test_a_directory_that_was_exchanged_for_a_link_keeps_its_writer(directory: Directory, outside: Path) -> None:
    directory.make("place")
    with directory.inner("place") as place:
        (directory.path / "place").rename(directory.path / "moved")
        (directory.path / "place").symlink_to(outside)
        place.write("file", b"new")
    assert (outside / "file").read_text() == "mine"
    assert (directory.path / "moved" / "file").read_text() == "new"


def test_what_a_dead_process_left_half_written_is_swept(directory: Directory, outside: Path) -> None:
    here = atomic.name_aside("x.json")
    dead, elsewhere = here.replace(f"~{os.getpid()}~", "~999999999~"), here.replace(socket.gethostname(), "far")
    for name in (here, dead, elsewhere):
        (directory.path / name).write_text("half")
    link = dead.replace("x.json", "link")
    (directory.path / link).symlink_to(outside / "file")
    directory.sweep()
    assert sorted(names(directory)) == sorted([here, elsewhere, link])

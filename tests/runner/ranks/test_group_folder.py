"""The folders of groups: a living laboratory's stay, a killed one's are swept."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from steplab.core.errors import EnvironmentFault
from steplab.runner.ranks import group_folder

LATER = time.time() + 3600


@pytest.fixture
def own_memory(tmp_path_factory, monkeypatch):
    """A place of this test's own: what is in the machine's memory, tests beside this one sweep, too."""
    monkeypatch.setattr(group_folder, "SHARED_MEMORY", tmp_path_factory.mktemp("memory"))
    return group_folder.SHARED_MEMORY


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_living_laboratory_keeps_its_folder(own_place):
    mine = group_folder.GroupFolder()
    group_folder.sweep(LATER)
    assert mine.path.exists()
    mine.remove()
    assert not list(own_place.iterdir())


def test_a_killed_laboratory_leaves_a_folder_that_is_swept(own_place):
    code = "import os; from steplab.runner.ranks.group_folder import *; room = GroupFolder(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert len(list(own_place.iterdir())) == 1
    group_folder.sweep()
    assert not list(own_place.iterdir())


def test_a_folder_in_memory_goes_with_the_room(own_place):
    mine = group_folder.GroupFolder()
    memory = mine.shared_memory()
    assert memory.parent == Path("/dev/shm")
    group_folder.sweep(LATER)
    assert memory.exists()
    mine.remove()
    assert not memory.exists()


KILLED = """
import os, pathlib, sys
from steplab.runner.ranks import group_folder
group_folder.SHARED_MEMORY = pathlib.Path(sys.argv[1])
room = group_folder.GroupFolder()
room.shared_memory()
os.kill(os.getpid(), 9)
"""


def test_a_folder_in_memory_of_a_killed_laboratory_is_swept_like_its_room(own_place, own_memory):
    subprocess.run([sys.executable, "-c", KILLED, str(own_memory)], check=False)
    assert (len(list(own_place.iterdir())), len(list(own_memory.iterdir()))) == (1, 1)
    group_folder.sweep()
    assert (list(own_place.iterdir()), list(own_memory.iterdir())) == ([], [])


def test_a_folder_that_may_be_about_to_be_locked_stays_a_while(own_place):
    (own_place / f"{group_folder.UNNAMED}x").mkdir()
    group_folder.sweep()
    assert len(list(own_place.iterdir())) == 1
    group_folder.sweep(LATER)
    assert not list(own_place.iterdir())


def test_no_place_for_temporary_files_is_one_sentence(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(EnvironmentFault, match=r"temporary folder cannot be made .*TMPDIR"):
        group_folder.GroupFolder()


def test_other_folders_are_not_touched(own_place):
    (own_place / "steplab-mine").mkdir()
    (own_place / "steplab-room-link").symlink_to(own_place / "steplab-mine")
    group_folder.sweep(LATER)
    assert len(list(own_place.iterdir())) == 2

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


def test_a_folder_in_memory_goes_with_the_room_and_is_swept_like_it(own_place):
    mine = group_folder.GroupFolder()
    memory = mine.shared_memory()
    assert memory.parent == group_folder.SHARED_MEMORY
    mine.remove()
    assert not memory.exists()
    code = (
        "import os; from steplab.runner.ranks.group_folder import GroupFolder; room = GroupFolder();"
        "print(room.shared_memory(), flush=True);"
        "os.kill(os.getpid(), 9)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stdout.strip()
    assert Path(told).exists()
    group_folder.sweep()
    assert not Path(told).exists()


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

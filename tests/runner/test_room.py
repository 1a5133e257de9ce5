"""The folders of groups: a living laboratory's stay, a killed one's are swept."""

import subprocess
import sys
import tempfile
import time

import pytest

from steplab.runner import room

LATER = time.time() + 3600


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_living_laboratory_keeps_its_folder(own_place):
    mine = room.Room()
    room.sweep(LATER)
    assert mine.path.exists()
    mine.remove()
    assert not list(own_place.iterdir())


def test_a_killed_laboratory_leaves_a_folder_that_is_swept(own_place):
    code = "import os; from steplab.runner.room import Room; room = Room(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert len(list(own_place.iterdir())) == 1
    room.sweep()
    assert len(list(own_place.iterdir())) == 1, "it may be about to be locked"
    room.sweep(LATER)
    assert not list(own_place.iterdir())


def test_other_folders_are_not_touched(own_place):
    (own_place / "steplab-mine").mkdir()
    (own_place / "steplab-room-link").symlink_to(own_place / "steplab-mine")
    room.sweep(LATER)
    assert len(list(own_place.iterdir())) == 2

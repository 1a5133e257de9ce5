"""The Slurm of the tests leaves nothing behind, whoever is killed; here without a Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_box


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A box's folder in a temporary folder of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"{slurm_box.PREFIX}old"
    folder.mkdir()
    return folder


@pytest.fixture
def daemon(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One that was told of the box's configuration."""
    told = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    with subprocess.Popen(["sleep", "1000"], env=told) as process:
        yield process
        process.kill()


def test_a_box_that_nobody_keeps_is_emptied_by_the_next(folder: Path, daemon: subprocess.Popen[bytes]) -> None:
    (folder / slurm_box.KEPT).touch()
    slurm_box.sweep()
    assert daemon.wait(timeout=60) == -9
    assert not folder.exists()


def test_a_box_that_is_kept_is_left_alone(folder: Path, daemon: subprocess.Popen[bytes]) -> None:
    (folder / slurm_box.KEPT).touch()
    script = "import fcntl, sys; kept = open(sys.argv[1]); fcntl.flock(kept, 2); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(folder / slurm_box.KEPT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        keeper.stdout.readline()
        slurm_box.sweep()
        assert daemon.poll() is None
        assert folder.exists()


def test_what_a_process_of_the_box_started_is_ended_with_it(folder: Path) -> None:
    """A job's own programs may have neither the variables nor the folder of whoever started them."""
    told = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    with subprocess.Popen(["bash", "-c", "env -i sleep 1000 & wait"], cwd="/", env=told) as shell:
        deadline = time.monotonic() + slurm_box.PATIENCE_S
        while "sleep" not in [process.name() for process in slurm_box.in_box(folder)]:
            assert shell.poll() is None and time.monotonic() < deadline
        slurm_box.empty(folder)
    assert not list(slurm_box.in_box(folder))
    assert not folder.exists()

"""A machine describes itself as the laboratory's own library sees it; what the system does not say is left open."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil
import pytest

from steplab_worker import machine as subject

CPUINFO = """processor : 0
model name : A CPU @ 2 GHz
physical id : 0
core id : 0
cpu MHz : 1000.0

processor : 1
model name : A CPU @ 2 GHz
physical id : 0
core id : 0
cpu MHz : 3000.0

processor : 2
model name : A CPU @ 2 GHz
physical id : 1
core id : 0
cpu MHz : 2000.0
"""


@pytest.fixture
def other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a machine that is not at hand."""
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    (tmp_path / "meminfo").write_text("MemTotal:       1000 kB\nMemFree: 1 kB\n")
    for number in (0, 1):
        (tmp_path / f"gpu{number}").mkdir()
        (tmp_path / f"gpu{number}" / "information").write_text("Model: \t\t A GPU\nIRQ: 1\n")
    monkeypatch.setattr(subject, "CPUINFO", str(tmp_path / "cpuinfo"))
    monkeypatch.setattr(subject, "MEMINFO", str(tmp_path / "meminfo"))
    monkeypatch.setattr(subject, "MAX_KHZ", str(tmp_path / "max_khz"))
    monkeypatch.setattr(subject, "GPUS", str(tmp_path / "gpu*" / "information"))
    return tmp_path


def described() -> subject.Machine:
    return subject.machine.__wrapped__()


def test_this_machine_is_described_as_psutil_sees_it() -> None:
    about = described()
    assert about.host == socket.gethostname()
    assert about.cpus == psutil.cpu_count()
    assert about.cores == psutil.cpu_count(logical=False)
    assert about.memory_bytes == psutil.virtual_memory().total
    assert about.cpu


def test_cores_are_counted_without_their_second_threads(other_machine: Path) -> None:
    about = described()
    assert (about.cpu, about.cores, about.memory_bytes, about.gpus) == ("A CPU @ 2 GHz", 2, 1024000, "A GPU, A GPU")


def test_the_highest_clock_rate_is_told_or_the_present_one(other_machine: Path) -> None:
    assert described().mhz == 2000.0
    (other_machine / "max_khz").write_text("3500000\n")
    assert described().mhz == 3500.0


def test_what_the_system_does_not_say_is_left_open(other_machine: Path) -> None:
    (other_machine / "cpuinfo").write_text("Hardware: a board\n")
    about = described()
    assert about.cpu
    assert (about.cores, about.mhz) == (None, None)

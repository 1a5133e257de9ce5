"""Files that may be anything: regular ones are read to their end, others are one sentence and never a wait."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from steplab.core.errors import InputError
from steplab.core.files import read_regular


def test_a_regular_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(InputError, match=r"file: is too large; allowed: up to 4 bytes"):
        read_regular(path, 4)


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_regular(tmp_path / "file", 0) == b""


def test_a_link_of_the_user_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 9) == b"x"


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError, match="is a FIFO, not a regular file"):
        read_regular(tmp_path / "fifo", 9)


def test_a_socket_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's whole path may be too long for it
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(InputError, match="is a socket"):
            read_regular(Path("socket"), 9)


def test_a_device_without_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="zero: is a device"):
        read_regular(tmp_path / "zero", 9)


def test_a_file_that_hides_its_size_is_bounded() -> None:
    assert b"Pid:" in read_regular(Path("/proc/self/status"), 100_000)
    with pytest.raises(InputError, match="too large"):
        read_regular(Path("/proc/self/status"), 10)


@pytest.mark.parametrize(("name", "error"), [("missing", FileNotFoundError), (".", IsADirectoryError)])
def test_what_the_system_refuses_keeps_its_own_error(tmp_path: Path, name: str, error: type[OSError]) -> None:
    with pytest.raises(error):
        read_regular(tmp_path / name, 9)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for limit in (4, 5):
        with pytest.raises(InputError) if limit == 4 else contextlib.nullcontext():
            read_regular(tmp_path / "file", limit)
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before

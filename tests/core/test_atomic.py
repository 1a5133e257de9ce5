"""Written aside: whole or not there, and swept only when nobody lives who could still move it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steplab.core import atomic


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """What a process that has ended left aside."""
    code = (
        "import os, sys; from pathlib import Path; from steplab.core import atomic\n"
        "with atomic.folder(Path(sys.argv[1])) as place:\n"
        "    (place / 'part').write_text('half'); print(place, flush=True); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "out"], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip())


def other(path: Path, pattern: str, text: str) -> Path:
    """The same leftover under another owner's name."""
    return path.rename(path.with_name(re.sub(pattern, text, path.name)))


def test_what_a_dead_process_left_is_swept(dead: Path, tmp_path: Path) -> None:
    assert (dead / "part").exists()
    atomic.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_this_process_is_writing_stays(tmp_path: Path) -> None:
    file = tmp_path / atomic.name_aside("x.csv")
    file.write_bytes(b"1,2")
    with atomic.folder(tmp_path / "runs") as folder:
        atomic.sweep(tmp_path)
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == [file]


def test_a_process_that_took_the_number_of_a_dead_one_is_not_its_owner(dead: Path, tmp_path: Path) -> None:
    reused = other(dead, r"~\d+~(\d+)-", rf"~{os.getpid()}~1-")
    atomic.sweep(tmp_path)
    assert not reused.exists()


@pytest.mark.parametrize(("pattern", "text"), [(r"~[^~]+~(\d+~)", r"~far~\1"), (r"-\d+~", "-1~")])
def test_of_another_host_or_container_only_age_tells(dead: Path, tmp_path: Path, pattern: str, text: str) -> None:
    elsewhere = other(dead, pattern, text)
    part, long_ago = elsewhere / "part", time.time() - 2 * atomic.ABANDONED_S
    os.utime(elsewhere, (long_ago, long_ago))
    atomic.sweep(tmp_path)
    assert part.exists(), "a file in it was written just now"
    os.utime(part, (long_ago, long_ago))
    atomic.sweep(tmp_path)
    assert not elsewhere.exists()


def test_a_link_is_neither_followed_nor_removed(dead: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    link = dead.with_name(dead.name.replace("out", "link"))
    link.symlink_to(precious)
    (dead / "inner").symlink_to(precious)
    atomic.sweep(tmp_path)
    assert (precious / "thesis.txt").exists()
    assert link.is_symlink()
    assert not dead.exists()


@pytest.mark.parametrize("name", [".x.tmp", "x~a~1~2-3~0123abcd.tmp", ".x~a~1~2-3~0123abcd.tmp.old", ".~a~b~.tmp"])
def test_a_file_of_another_kind_of_name_stays(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("mine")
    os.utime(path, (0, 0))
    atomic.sweep(tmp_path)
    assert path.exists()


def test_the_longest_name_of_a_file_can_be_written_aside(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    place = path.with_name(atomic.name_aside(path.name))
    place.write_bytes(b"whole")
    assert place.replace(path).read_bytes() == b"whole"


def test_a_scratch_folder_is_for_this_user_alone_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with atomic.scratch("figures") as place:
        assert place.parent == tmp_path
        assert place.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []

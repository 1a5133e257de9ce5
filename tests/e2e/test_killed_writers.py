"""What a killed command left half-made is swept by the next one that may; what a living one writes is not touched.

The commands are stopped by an audit hook of the interpreter at the very step that would complete their work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

STOPPED = """
import os, signal, sys
event, part, fate = sys.argv[1:4]
def stop(name, arguments):
    if name == event and part in repr(arguments):
        if fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        print("stopped", file=sys.stderr, flush=True)
        sys.stdin.read()
sys.addaudithook(stop)
sys.argv = ["steplab", *sys.argv[4:]]
from steplab.cli import main
main()
"""


@dataclass(frozen=True)
class Writer:
    """A command, the name of what it writes, and the step before which it is stopped."""

    command: str
    name: str
    event: str = "os.rename"
    part: str = ""  # of the step's arguments; by default the name aside

    @property
    def stop(self) -> tuple[str, str]:
        return self.event, self.part or f".{self.name}~"


WRITERS = [
    Writer("export study --to out.csv", "out.csv"),
    Writer("export study --table iterations --to out.parquet", "out.parquet"),
    Writer("export study --table trace --to out.json", "out.json"),
    Writer("export study --to out.extrap.txt", "out.extrap.txt"),
    Writer("export study --to tensorboard:events", "events"),
    Writer("export study --to mlflow:store", "store"),
    Writer("report study --models linear --out page.html", "page.html"),
    Writer("fit study --model linear --target t_iter --intrinsic batch_size --out model.json", "model.json"),
    Writer("import csv times.csv --out theirs", "theirs"),
    Writer("data make mnist --samples 60 --out images", "images"),
    Writer("init begun", "study.toml"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small measured study."""
    place = tmp_path_factory.mktemp("measured")
    text = '[study]\nname = "x"\n[factors]\nframework = ["synthetic"]\nbatch_size = [1, 2, 4, 8, 16, 32]\nnoise = 0.1\n'
    (place / "x.toml").write_text(text + "[design]\nreplicates = 2\n")
    command = [sys.executable, "-m", "steplab", "run", "x.toml", "--out", "study", "--json"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    return place / "study"


@pytest.fixture
def place(tmp_path: Path, study: Path) -> Path:
    """A folder from which the commands are called."""
    (tmp_path / "study").symlink_to(study)
    (tmp_path / "begun").mkdir()
    (tmp_path / "times.csv").write_text("batch_size,t_iter\n1,0.1\n2,0.2\n")
    return tmp_path


def leftovers(place: Path) -> list[str]:
    return sorted(path.name for path in [*place.glob(".*.tmp"), *(place / "begun").glob(".*.tmp")])


def killed(place: Path, stop: tuple[str, str], command: str, env: Mapping[str, str] | None = None) -> None:
    arguments = [sys.executable, "-c", STOPPED, *stop, "killed", *command.split()]
    done = subprocess.run(arguments, cwd=place, env={**os.environ, **(env or {})}, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr


@contextmanager
def stopped(place: Path, stop: tuple[str, str], command: str, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """A command that lives, but does not go on before the end of the block; then it must finish well."""
    arguments = [sys.executable, "-c", STOPPED, *stop, "alive", *command.split()]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(arguments, cwd=place, env={**os.environ, **(env or {})}, text=True, **pipes) as process:
        try:
            assert process.stderr
            assert any(line == "stopped\n" for line in process.stderr)
            yield
            _, said = process.communicate(timeout=300)
            assert process.returncode == 0, said
        finally:
            process.kill()


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_the_same_command_sweeps_what_a_killed_one_left(
    writer: Writer, place: Path, steplab: Callable[..., Any]
) -> None:
    killed(place, writer.stop, writer.command)
    assert len(leftovers(place)) == 1
    assert not (place / writer.name).exists()
    assert steplab(*writer.command.split()).code == 0
    assert leftovers(place) == []


@pytest.mark.parametrize("name", ["out.csv", "events", "images"])
def test_what_a_living_command_writes_is_not_touched(name: str, place: Path, steplab: Callable[..., Any]) -> None:
    writer = next(writer for writer in WRITERS if writer.name == name)
    with stopped(place, writer.stop, writer.command):
        before = leftovers(place)
        assert len(before) == 1
        assert steplab("export", "study", "--to", "other.csv").code == 0
        assert leftovers(place) == before
    assert (place / name).exists()
    assert leftovers(place) == []


def test_a_killed_report_of_figures_leaves_nothing_for_long(place: Path, steplab: Callable[..., Any]) -> None:
    temporary = place / "temporary"
    temporary.mkdir()
    env = {"TMPDIR": str(temporary)}
    stop = ("subprocess.Popen", "steplab-figures")
    killed(place, stop, "report study --models linear --out page.html --figures figures", env)
    assert len(list(temporary.glob(".steplab-figures~*"))) == 1
    assert steplab("status", "study", env=env).code == 0
    assert list(temporary.glob(".steplab-figures~*")) == []


def test_status_sweeps_half_made_data_sets_of_runs(place: Path, steplab: Callable[..., Any]) -> None:
    env = {"STEPLAB_HOME": str(place / "home")}
    kept = place / "home" / "data"
    killed(place, ("os.rename", "mnist"), f"data make mnist --samples 60 --out {kept / 'mnist-60-s0'}")
    assert len(leftovers(kept)) == 1
    assert steplab("status", "study", env=env).code == 0
    assert leftovers(kept) == []


def test_a_half_made_environment_is_swept_unless_it_is_being_made(place: Path, steplab: Callable[..., Any]) -> None:
    env = {"STEPLAB_HOME": str(place / "home"), "PIP_NO_INDEX": "1"}
    venv = place / "home" / "envs" / "torch"
    killed(place, ("subprocess.Popen", "'pip'"), "env create torch", env)
    assert (venv / "bin" / "python").exists()
    lock = venv.with_suffix(".lock")
    with subprocess.Popen(
        ["flock", lock, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as installer:
        assert installer.stdin and installer.stdout
        installer.stdin.write("ready\n")
        installer.stdin.flush()
        assert installer.stdout.readline() == "ready\n"
        assert steplab("status", "study", env=env).code == 0
        assert venv.exists(), "somebody is installing there"
    assert steplab("status", "study", env=env).code == 0
    assert not venv.exists()


@pytest.mark.parametrize("command", [("status", "study"), ("doctor",)])
def test_a_room_of_a_killed_laboratory_is_swept(
    command: tuple[str, ...], place: Path, steplab: Callable[..., Any]
) -> None:
    room = place / "temporary" / "steplab-room-killed"
    room.mkdir(parents=True)
    os.utime(room, (0, 0))
    assert steplab(*command, env={"TMPDIR": str(room.parent)}).code == 0
    assert not room.exists()

"""What a page of the documentation tells its reader to type and to save, and how tests type it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from steplab.core.home import home

FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.M | re.S)
PATIENCE_S = 900.0  # ends a hang
LENT = ("envs", "data")  # of the reader's home, what would take long to make again


def commands(text: str) -> Iterator[str]:
    """The commands in fenced blocks: lines that begin with `$ `, or with the program's name."""
    for kind, _, body in FENCE.findall(text):
        for line in body.splitlines():
            if line.startswith("$ "):
                yield line[2:]
            elif kind != "console" and line.startswith("steplab "):
                yield line


def files(text: str) -> Iterator[tuple[str, str]]:
    """The files that a page tells its reader to save."""
    return ((title, body) for _, title, body in FENCE.findall(text) if title)


def typed(line: str, folder: Path) -> str:
    """What a command prints in a folder, on both streams; it must end well."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    screen = {"NO_COLOR": "1", "COLUMNS": "80", "OMP_NUM_THREADS": "1"}
    variables = {**os.environ, **screen, "PATH": paths, "STEPLAB_HOME": str(home_beside(folder))}
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout + done.stderr


def shorten(study: Path, changes: dict[str, str]) -> None:
    """Fewer iterations and smaller batches: a test proves that the session goes through, and looks at no time."""
    text = study.read_text()
    for usual, quick in changes.items():
        assert usual in text
        text = text.replace(usual, quick)
    study.write_text(text)


def home_beside(folder: Path) -> Path:
    """A home for whoever types in a folder: nets, noise and durations are not those of this machine's user."""
    own = folder.with_name(f"{folder.name}-home")
    if not own.exists():
        own.mkdir()
        for name in LENT:
            (own / name).symlink_to(home() / name, target_is_directory=True)
    return own

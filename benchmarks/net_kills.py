"""A cluster in a box, killed at random moments: `net up`, the net's owner, or a laboratory that has ranks in it.

After each kill `steplab net list` and `status` sweep as they do for a person, a net that is still up is taken down, and
nothing may be left: no process, no interface or queue of the machine, no note, no folder. Pass mark: 0 of 30.

    .venv/bin/python benchmarks/net_kills.py [--kills 30]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

STEPLAB = Path(sys.executable).with_name("steplab")
LONGEST_S = 3.0  # from a start to a kill
PATIENCE_S = 60.0
STUDY = """
[study]
name = "killed"
[factors]
framework = "synthetic"
workers = 2
placement = "net:kills"
rate = ["unshaped", "1gbit"]
[design]
replicates = 500
[measure]
iterations = 3
warmup = 1
phases = false
isolation = "process"
"""


@dataclass(frozen=True)
class Scene:
    """A home and a temporary folder of its own; all processes carry its mark."""

    folder: Path
    mark: str

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """A command of steplab."""
        own = {"STEPLAB_HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp"), "KILLS": self.mark}
        return subprocess.Popen(
            [STEPLAB, *map(str, arguments)], env={**os.environ, **own}, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, *arguments: object) -> str:
        """What a command prints, to its end."""
        return self.start(*arguments).communicate()[0]

    def processes(self) -> list[int]:
        """All that carry the mark."""
        marked = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get("KILLS") == self.mark:
                    marked.append(process.pid)
        return marked

    def left(self) -> list[str]:
        """What is there that should not be, after a while."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self._found()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _found(self) -> list[str]:
        notes, rooms = (self.folder / "home" / "nets").glob("*"), (self.folder / "tmp").glob("*")
        links = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
        found = [f"process {pid}" for pid in self.processes()]
        found += [path.name for path in (*notes, *rooms)]
        return found + [line for line in links.splitlines() if line.startswith(("port", "br0", "eth0@if"))]


def kill_up(scene: Scene, moment: float) -> None:
    """The command that makes a net."""
    process = scene.start("net", "up", "kills")
    time.sleep(moment)
    process.kill()
    process.communicate()


def kill_owner(scene: Scene, moment: float) -> None:
    """The owner of a net in which trials run."""
    owner = json.loads(scene.run("net", "up", "kills", "--json"))["nets"][0]["owner"]
    laboratory = scene.start("run", "study.toml", "--out", f"out-{moment}")
    time.sleep(moment)
    os.kill(owner, signal.SIGKILL)
    time.sleep(moment)
    laboratory.kill()
    laboratory.communicate()


def kill_laboratory(scene: Scene, moment: float) -> None:
    """A laboratory at work in a net."""
    scene.run("net", "up", "kills")
    laboratory = scene.start("run", "study.toml", "--out", f"out-{moment}")
    time.sleep(moment)
    laboratory.kill()
    laboratory.communicate()


def clean(scene: Scene) -> None:
    """What a person does after a crash."""
    if json.loads(scene.run("net", "list", "--json"))["nets"]:
        scene.run("net", "down", "kills")
    scene.run("doctor", "--json")


def main() -> None:
    """Kill, clean, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    asked, moments, bad = parser.parse_args(), random.Random(15), 0
    ways: list[Callable[[Scene, float], None]] = [kill_up, kill_owner, kill_laboratory]
    for number in range(asked.kills):
        way, moment = ways[number % len(ways)], moments.uniform(0.05, LONGEST_S)
        with tempfile.TemporaryDirectory(prefix="net-kills-") as folder:
            scene = Scene(Path(folder), uuid.uuid4().hex)
            (scene.folder / "tmp").mkdir()
            (scene.folder / "study.toml").write_text(STUDY, encoding="utf-8")
            way(scene, moment)
            clean(scene)
            left = scene.left()
            bad += bool(left)
            print(f"{way.__name__} after {moment:.2f} s: {', '.join(left) or 'nothing is left'}", flush=True)
    print(f"{'MISS' if bad else 'ok  '} something was left after {bad} of {asked.kills} kills (at most 0)")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

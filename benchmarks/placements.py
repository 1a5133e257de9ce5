"""Every framework over every launcher: one trial of two ranks each, for real, or the reason why there is none.

On this machine; in a cluster in a box; over real ssh servers in one; on two nodes of a real Slurm. Pass mark: every
trial is `ok`, with its ranks where they belong, or `unsupported` with a reason. docs/hosts.md has the table.

    .venv/bin/python benchmarks/placements.py [--frameworks torch,jax] [--launchers local,net,hosts,slurm]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))

import sshd
from slurm_box import SlurmBox

from steplab.runner.nets import making
from steplab.store import records
from steplab.store.paths import StudyFolder

STEPLAB = Path(sys.executable).with_name("steplab")
FRAMEWORKS = ("torch", "tensorflow", "jax", "mxnet", "chainer", "velox", "onnxruntime")
NET = "placements"
PATIENCE_S = 400.0
STUDY = """
[study]
name = "placements"
kind = "{kind}"
[factors]
framework = "{framework}"
network = "lenet5"
batch_size = 8
workers = 2
{more}
[design]
replicates = 1
[measure]
{measure}
timeout_s = 200
retries = 0
[data]
samples = 128
[executor.hosts]
names = {names}
[executor.slurm]
time = "10"
poll_s = 0.5
jobs = 1
retries = 0
"""
Run = Callable[[str], str]


def answer(framework: str, more: str, executor: str, start: Callable[..., subprocess.Popen[str]], names: object) -> str:
    """What became of a trial."""
    infer = framework in ("velox", "onnxruntime")
    own = 'distribution = "multiworker"' if framework == "tensorflow" else ""
    measure = "phases = false" if infer else "iterations = 4\nwarmup = 1\nphases = false"
    text = STUDY.format(kind="infer" if infer else "step", framework=framework, more=f"{more}\n{own}", measure=measure,
                        names=json.dumps(names))  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="placements-") as name:
        (Path(name) / "study.toml").write_text(text)
        command = [STEPLAB, "run", Path(name) / "study.toml", "--out", Path(name) / "out", "--executor", executor]
        process = start(command)
        _, errors = process.communicate(timeout=PATIENCE_S)
        trials = list(records.all_records(StudyFolder(Path(name) / "out"))) if process.returncode in (0, 3) else []
    if not trials:
        return f"none: {errors.strip().splitlines()[-1] if errors.strip() else 'no word'}"
    hosts = ", ".join(sorted({rank.host for rank in trials[0].ranks}))
    return f"ok ({hosts})" if trials[0].status == "ok" else f"{trials[0].status}: {trials[0].reason}"


def started(command: list[object], variables: Mapping[str, str] = os.environ) -> subprocess.Popen[str]:
    return subprocess.Popen(list(map(str, command)), env=dict(variables), text=True, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)  # fmt: skip


@contextlib.contextmanager
def local() -> Iterator[Run]:
    """On this machine."""
    yield lambda framework: answer(framework, "", "local", started, [])


@contextlib.contextmanager
def net() -> Iterator[Run]:
    """In a cluster in a box."""
    making.up(NET, 2)
    try:
        yield lambda framework: answer(framework, f'placement = "net:{NET}"', "local", started, [])
    finally:
        making.down(NET)


@contextlib.contextmanager
def hosts() -> Iterator[Run]:
    """Over ssh, to servers in a cluster in a box whose first host is the laboratory's."""
    box = making.up(NET, 3)
    try:
        with tempfile.TemporaryDirectory() as folder, sshd.servers(box, Path(folder)) as servers:

            def inside(command: list[object]) -> subprocess.Popen[str]:
                pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
                return sshd.inside(box, box.hosts[0], command, env=dict(servers.variables), **pipes)

            yield lambda framework: answer(framework, "nodes = 2", "hosts", inside, servers.names)
    finally:
        making.down(NET)


@contextlib.contextmanager
def slurm() -> Iterator[Run]:
    """On two nodes of a real Slurm."""
    with SlurmBox(nodes=2) as box:
        variables = {**os.environ, **box.variables}
        start = lambda command: started(command, variables)  # noqa: E731
        yield lambda framework: answer(framework, "nodes = 2", "slurm", start, [])


LAUNCHERS = {"local": local, "net": net, "hosts": hosts, "slurm": slurm}


def main() -> None:
    """Try all, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frameworks", default=",".join(FRAMEWORKS))
    parser.add_argument("--launchers", default=",".join(LAUNCHERS))
    asked, bad = parser.parse_args(), 0
    for launcher in asked.launchers.split(","):
        with LAUNCHERS[launcher]() as run:
            for framework in asked.frameworks.split(","):
                text = run(framework)
                bad += not text.startswith(("ok", "unsupported"))
                print(f"{launcher:6} {framework:11} {text}", flush=True)
    print(f"{'MISS' if bad else 'ok  '} {bad} trials are neither ok nor unsupported (at most 0)")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

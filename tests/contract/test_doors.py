"""What listens while two ranks work, in every framework: nobody outside can reach it, and nonsense does no harm."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from steplab.core import catalogue
from steplab.store import records
from steplab.store.paths import StudyFolder

FRAMEWORKS = [name for name in catalogue.framework_names() if catalogue.framework(name).needs_environment]
STRANGER = Path(__file__).with_name("stranger.py")
LISTENING = "0A"  # the state of a listening socket in /proc/net/tcp
LISTEN_S = 0.1  # so soon the watch knows of a record
LOOK_S = 0.5  # until then doors are only looked for; doing so more often would only take the ranks' CPUs
PATIENCE_S = 180  # for ranks to start, and for a trial: the longest that a laboratory has for a start
UNIX_LISTENING = 0x10000  # its flag in /proc/net/unix


@dataclass(frozen=True)
class Door:
    """A listening socket of a process: an address with its port, or the name of a Unix socket."""

    pid: int
    network: str  # the namespace
    kind: str
    address: str


@dataclass
class Watch:
    """All doors seen below a process, and a stranger at each of them."""

    root: int
    folder: StudyFolder
    doors: set[Door] = field(default_factory=set)
    interfaces: dict[str, set[str]] = field(default_factory=dict)  # of each private network
    strangers: dict[Door, subprocess.Popen[bytes]] = field(default_factory=dict)

    def look(self) -> None:
        for pid in descendants(self.root):
            new = set(doors_of(pid)) - self.doors
            for door in new:
                self.interfaces.setdefault(door.network, interfaces_of(pid))
            self.doors |= new

    def knock(self) -> None:
        """Strangers come when the ranks are warm, in the middle of the next trial, and to each door that opens then."""
        self.strangers |= {door: knock(door) for door in self.doors - self.strangers.keys()}

    def until(self, ended: threading.Event) -> None:
        last = -LOOK_S
        while not ended.wait(LISTEN_S):
            warm = bool(records.done(self.folder))
            if warm or time.monotonic() - last >= LOOK_S:
                self.look()
                last = time.monotonic()
            if warm:
                self.knock()

    def dismiss(self) -> None:
        for stranger in self.strangers.values():
            with stranger:
                stranger.kill()


def descendants(root: int) -> list[int]:
    try:
        return [process.pid for process in psutil.Process(root).children(recursive=True)]
    except psutil.Error:
        return []


def doors_of(pid: int) -> Iterator[Door]:
    try:
        network = str(Path(f"/proc/{pid}/ns/net").readlink())
        sockets = open_files(pid)
        for kind in ("tcp", "tcp6"):
            for row in rows_of(pid, kind):
                if row[3] == LISTENING and f"socket:[{row[9]}]" in sockets:
                    yield Door(pid, network, kind, row[1])
        for row in rows_of(pid, "unix"):
            if int(row[3], 16) & UNIX_LISTENING and f"socket:[{row[6]}]" in sockets:
                yield Door(pid, network, "unix", row[7] if len(row) > 7 else "")
    except OSError:
        return  # the process has ended


def open_files(pid: int) -> set[str]:
    targets = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            targets.add(str(path.readlink()))
    return targets


def rows_of(pid: int, kind: str) -> list[list[str]]:
    return [line.split() for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]]


def interfaces_of(pid: int) -> set[str]:
    return {line.partition(":")[0].strip() for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]}


def knock(door: Door) -> subprocess.Popen[bytes]:
    """A stranger who has come into the ranks' network by whatever means."""
    inside = ["nsenter", f"--target={door.pid}", "--net"]
    if os.geteuid():
        inside += ["--user", "--preserve-credentials"]
    command = [*inside, sys.executable, str(STRANGER), door.kind, door.address]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@dataclass(frozen=True)
class Attacked:
    """A study that ran while strangers knocked at every door."""

    watch: Watch
    left: list[Path]  # in the temporary folder
    records: list[Any]
    code: int
    errors: str


def network_of(framework: str) -> str:
    """LeNet-5, or a network of dense layers for a framework that has no others."""
    layers = catalogue.framework(framework).layers
    return "lenet5" if layers is None or "conv" in layers else "mlp"


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.framework(name)) for name in FRAMEWORKS])
def attacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    name, folder = str(request.param), tmp_path_factory.mktemp("doors")
    kind = "step" if "step" in catalogue.framework(name).kinds else "infer"
    factors = {"framework": [name], "workers": [2], "batch_size": [8, 16, 24], "network": [network_of(name)]}
    lines = [f'[study]\nname = "doors"\nkind = "{kind}"\n[factors]']
    lines += [f"{factor} = {json.dumps(levels)}" for factor, levels in factors.items()]
    # Long enough for strangers to come while the ranks are at work: an engine that only infers takes longer.
    iterations = 100 if kind == "step" else 20
    measure = f"iterations = {iterations}\nphases = false\nretries = 0\ntimeout_s = {PATIENCE_S}"
    lines += [f"[design]\nreplicates = 1\n[measure]\n{measure}"]
    (folder / "study.toml").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "steplab", "run", "study.toml", "--out", "out"]
    temporary = folder / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        watch, ended = Watch(run.pid, StudyFolder(folder / "out")), threading.Event()
        watcher = threading.Thread(target=watch.until, args=(ended,))
        watcher.start()
        try:
            _, errors = run.communicate(timeout=8 * PATIENCE_S)  # three starts, three trials
        finally:
            ended.set()
            watcher.join()
            watch.dismiss()
    done = list(records.all_records(StudyFolder(folder / "out")))
    return Attacked(watch, list(temporary.iterdir()), done, run.returncode, errors)


def test_nobody_outside_can_reach_what_listens(attacked: Attacked) -> None:
    """Every door is in a network whose only interface is its own loopback."""
    here = str(Path("/proc/self/ns/net").readlink())
    open_doors = [door for door in attacked.watch.doors if door.network == here]
    assert not open_doors, "listening in the network of this machine"
    assert all(names == {"lo"} for names in attacked.watch.interfaces.values())


def test_frameworks_whose_ranks_meet_declare_their_doors(attacked: Attacked) -> None:
    """What they declare is what people are told where there is no private network."""
    framework = attacked.records[0].config["framework"]
    assert bool(attacked.watch.doors) == bool(catalogue.framework(framework).doors)


def test_a_trial_with_strangers_at_its_doors_ends_well_or_with_a_reason(attacked: Attacked) -> None:
    assert attacked.code in (0, 3), attacked.errors
    assert len(attacked.records) == 3
    assert all(record.status == "ok" or record.reason for record in attacked.records)


def test_strangers_stood_at_every_door(attacked: Attacked) -> None:
    assert attacked.watch.strangers.keys() == attacked.watch.doors


def test_ranks_leave_no_temporary_files(attacked: Attacked) -> None:
    assert not attacked.left


def test_every_framework_that_meets_is_attacked() -> None:
    declared = {name for name in catalogue.framework_names() if catalogue.framework(name).doors}
    assert declared <= set(FRAMEWORKS)
    assert declared - set(catalogue.framework_extensions()) == {"torch", "tensorflow", "jax", "mxnet", "chainer"}


def test_the_watch_sees_a_listening_socket() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = f"{server.getsockname()[1]:04X}"
        assert any(door.address.endswith(port) for door in doors_of(os.getpid()))

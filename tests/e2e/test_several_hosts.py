"""Studies on several hosts: in a cluster in a box, and over real ssh servers in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sshd

from steplab import open as opened
from steplab.core.record import Record
from steplab.core.resolution import resolve
from steplab.kinds.step import StepKind
from steplab.runner.nets import making
from steplab.runner.nets.net import Net
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.site import NotHere, launcher_there
from steplab.store import records
from steplab.store.paths import StudyFolder
from steplab.store.tables import load

STEPLAB = Path(sys.executable).with_name("steplab")
PATIENCE_S = 600.0
STUDY = """
[study]
name = "hosts"
[factors]
{factors}
[design]
replicates = 1
order = "given"
[measure]
iterations = 5
warmup = 1
phases = false
retries = 0
timeout_s = 500
[executor.hosts]
names = {names}
"""


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    """Four hosts; beside other tests' nets in the place where the environments are."""
    net = making.up(f"t{os.getpid()}", 4)
    yield net
    making.down(net.name)


@pytest.fixture(scope="module")
def servers(net: Net, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Servers]:
    if os.geteuid():
        pytest.skip(sshd.NEEDS_ROOT)
    with sshd.servers(net, tmp_path_factory.mktemp("ssh")) as servers:
        yield servers


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(names: object = (), **factors: object) -> Path:
        levels = {"framework": "synthetic", **factors}
        lines = "\n".join(f"{name} = {json.dumps(level)}" for name, level in levels.items())
        (tmp_path / "study.toml").write_text(STUDY.format(factors=lines, names=json.dumps(names)))
        return tmp_path / "study.toml"

    return write


def all_records(folder: Path) -> list[Record]:
    return sorted(records.all_records(StudyFolder(folder)), key=lambda record: record.started)


def places(record: Record) -> list[tuple[str, int | None, str | None]]:
    return [(rank.host, rank.local_rank, rank.address) for rank in record.ranks]


def test_a_trial_in_a_box_says_where_each_rank_was(net: Net, write: Write, steplab: Callable[..., Any]) -> None:
    study = write(workers=[3, 4], placement=f"net:{net.name}", rate=["unshaped", "100mbit"])
    ran = steplab("run", study, "--out", "out", "--json")
    assert (ran.code, ran.json["ok"]) == (0, 4)
    for record in all_records(study.parent / "out"):
        workers = int(record.config["workers"])
        assert places(record) == [(host.name, 0, host.address) for host in net.hosts[:workers]]
        assert [host.host for host in record.hosts] == [host.name for host in net.hosts[:workers]]
        assert {rank.clock_offset_s for rank in record.ranks} == {0.0}  # one kernel has one clock
        assert record.resolved.nodes == workers
    trials = load(study.parent / "out").trials
    assert sorted(trials["nodes"]) == [3, 3, 4, 4]
    assert set(trials["rank_hosts"]) == {",".join(host.name for host in net.hosts[:n]) for n in (3, 4)}


def test_a_slow_line_shows_in_the_profile_of_a_box(net: Net, steplab: Callable[..., Any], tmp_path: Path) -> None:
    words = ["--framework", "synthetic", "--ranks", "2", "--rate", "1gbit,100mbit"]
    said = steplab("network", net.name, *words, "--largest", 2**22, "--out", "box.json", "--json").json
    assert said["one_machine"]
    assert [(entry["rate"], entry["nodes"]) for entry in said["ranks"]] == [("100mbit", 2), ("1gbit", 2)]
    slow = {point["bytes"]: point["seconds"] for point in said["pairs"][0]["sizes"]}
    # No line carries more than its rate: 4 MiB, of which a burst of at most 1 MiB may pass at once, over 12.5 MB/s.
    assert slow[2**22] > 3 * 2**20 / 12.5e6


def test_nodes_scale_as_workers_do(net: Net, write: Write, steplab: Callable[..., Any]) -> None:
    study = write(nodes=[1, 2, 3], placement=f"net:{net.name}")
    assert steplab("run", study, "--out", "out").code == 0
    findings = opened(study.parent / "out").analyze()
    (series,) = findings.analysis.scaling
    assert [point.workers for point in series.points] == [1, 2, 3]
    assert "nodes" not in series.factors
    assert steplab("analyze", "out").code == 0
    chart = findings.figure("speed-up")
    assert list(next(line.x for line in chart.data if line.mode == "lines+markers")) == [1, 2, 3]


def test_several_ranks_on_a_host_are_numbered_there(net: Net, write: Write, steplab: Callable[..., Any]) -> None:
    study = write(nodes=2, ranks_per_node=2, placement=f"net:{net.name}")
    assert steplab("run", study, "--out", "out").code == 0
    (record,) = all_records(study.parent / "out")
    first, second = net.hosts[:2]
    assert places(record) == [(h.name, n, h.address) for h in (first, second) for n in (0, 1)]


def test_a_net_is_one_laboratorys_at_a_time(net: Net, write: Write, steplab: Callable[..., Any]) -> None:
    study = write(workers=2, placement=f"net:{net.name}")
    inside = net.occupy()
    try:
        refused = steplab("run", study, "--out", "out")
    finally:
        os.close(inside)
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)
    assert f"another laboratory is at work in the net '{net.name}'" in refused.err
    assert steplab("run", study, "--out", "out").code == 0
    os.close(net.occupy())  # it was given back


@pytest.mark.parametrize(
    "framework",
    [pytest.param(name, marks=pytest.mark.framework(name)) for name in ("torch", "tensorflow", "mxnet", "chainer")],
)
def test_frameworks_run_in_a_box(framework: str, net: Net, write: Write, steplab: Callable[..., Any]) -> None:
    study = write(framework=framework, workers=2, batch_size=4, placement=f"net:{net.name}", rate="1gbit")
    assert steplab("run", study, "--out", "out", timeout=PATIENCE_S).code == 0
    (record,) = all_records(study.parent / "out")
    assert places(record) == [(host.name, 0, host.address) for host in net.hosts[:2]]
    assert [host.machine.host for host in record.hosts] == [host.name for host in net.hosts[:2]]
    assert all(host.versions[framework] == record.versions[framework] for host in record.hosts)
    assert record.hosts[0].other_cpu_s is not None


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [
        ({"nodes": 2}, "trials on 2 nodes cannot run on this machine alone; use --executor hosts"),
        ({"workers": 2, "placement": "net:nowhere"}, "there is no net 'nowhere'; make it with `steplab net up nowhere"),
        ({"workers": 5, "placement": "net:{net}"}, "has 4 hosts, but there are trials on 5 nodes"),
    ],
)
def test_what_is_missing_here_is_told_before_anything_starts(
    factors: dict[str, object], sentence: str, net: Net, write: Write, steplab: Callable[..., Any]
) -> None:
    said = {name: level.format(net=net.name) if isinstance(level, str) else level for name, level in factors.items()}
    ran = steplab("run", write(**said), "--out", "out")
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert sentence in ran.err


Laboratory = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def laboratory(net: Net, servers: sshd.Servers, tmp_path: Path) -> Iterator[Laboratory]:
    """Run the command in the net's first host."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        more = {"cwd": tmp_path, "env": dict(servers.variables), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running.append(sshd.inside(net, net.hosts[0], [STEPLAB, "run", *arguments, "--executor", "hosts"], **more))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "framework",
    ["synthetic", *(pytest.param(name, marks=pytest.mark.framework(name)) for name in ("torch", "jax", "chainer"))],
)
def test_three_hosts_over_ssh(
    framework: str, net: Net, servers: sshd.Servers, write: Write, laboratory: Laboratory, tmp_path: Path
) -> None:
    study = write(servers.names, framework=framework, nodes=3, batch_size=4)
    done = laboratory(study, "--out", "out")
    _, errors = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 0, errors
    (record,) = all_records(tmp_path / "out")
    assert places(record) == [(host.name, 0, host.address) for host in net.hosts[1:]]
    assert len({rank.pid for rank in record.ranks}) == 3


def members_in(net: Net, name: str) -> list[int]:
    """The worker processes in a host."""
    host = next(host for host in net.hosts if host.name == name)
    network = Path(f"/proc/{net.pid}/fd/{host.net}").stat().st_ino
    return [pid for pid in making._all_processes() if making._network(pid) == network and _is_member(pid)]


def _is_member(pid: int) -> bool:
    try:
        return b"--rank" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_host_that_is_switched_off_is_the_reason_and_the_study_goes_on(
    net: Net, servers: sshd.Servers, write: Write, laboratory: Laboratory, tmp_path: Path
) -> None:
    lost = servers.names[0]
    study = write(servers.names, nodes=[3, 2], fault="hang", fault_rank=2)
    running = laboratory(study, "--out", "out")
    deadline = time.monotonic() + PATIENCE_S
    while not members_in(net, lost):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    servers.switch_off(lost)
    try:
        _, errors = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 3, errors
        first, second = all_records(tmp_path / "out")
        assert (first.status, second.status) == ("crashed", "ok")
        assert f"rank 0: the host {lost} was lost" in first.reason
        assert [rank.host for rank in second.ranks] == servers.names[1:]
    finally:
        servers.switch_on(lost)


def test_ranks_that_another_program_starts_are_unsupported_over_ssh_with_the_reason() -> None:
    key = GroupKey("chainer", "", 2, 1, 2, nodes=2)
    with pytest.raises(NotHere, match="Chainer: its ranks are started by mpiexec, which does not get to other hosts"):
        launcher_there(key, {"local": "ssh"})


@pytest.mark.parametrize(
    ("names", "factors", "sentence"),
    [
        ([], {}, "the executor 'hosts' knows no hosts"),
        (["nowhere"], {}, "the host 'nowhere' cannot be reached ("),
        (["{0}", "{0}"], {"nodes": 2}, "are one host"),
        (["{0}"], {"nodes": 2}, "trials need 2 nodes, but [executor.hosts] names 1"),
        (["{0}"], {"placement": "net:box"}, "net:box is on this machine, not on other hosts"),
    ],
)
def test_what_is_missing_there_is_told_before_anything_starts(
    names: list[str], factors: dict[str, object], sentence: str, servers: sshd.Servers, write: Write,
    laboratory: Laboratory, tmp_path: Path,
) -> None:  # fmt: skip
    done = laboratory(write([name.format(*servers.names) for name in names], **factors), "--out", "out")
    _, errors = done.communicate(timeout=PATIENCE_S)
    assert (done.returncode, len(errors.splitlines())) == (1, 1), errors
    assert sentence in errors
    assert not (tmp_path / "out").exists()


@pytest.mark.framework("torch")
def test_without_a_gpu_cuda_is_unsupported_and_cpu_is_measured(write: Write, steplab: Callable[..., Any]) -> None:
    study = write(framework="torch", device=["cuda", "cpu"], batch_size=4)
    ran = steplab("run", study, "--out", "out", "--json", timeout=PATIENCE_S, env={"CUDA_VISIBLE_DEVICES": ""})
    assert (ran.json["ok"], ran.json["unsupported"]) == (1, 1)
    refused = next(record for record in all_records(study.parent / "out") if record.status == "unsupported")
    assert "device = 'cuda' needs GPU 0 of its host, and the framework sees none there" in refused.reason


def test_what_a_framework_cannot_do_on_several_nodes_or_gpus_is_its_reason() -> None:
    one = {"framework": "tensorflow", "workers": 2, "distribution": "mirrored"}
    assert StepKind.unsupported(resolve(one)) == ""
    assert "one process with all replicas is on one host" in StepKind.unsupported(resolve({**one, "nodes": 2}))
    assert "its replicas need one each" in StepKind.unsupported(resolve({**one, "device": "cuda"}))
    assert "knows no GPU" in StepKind.unsupported(resolve({"framework": "mxnet", "device": "cuda"}))

"""What every launcher does: starts members, tells how they ended, and leaves none behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import sshd
from slurm_box import SlurmBox

from steplab.core.errors import EnvironmentFault
from steplab.runner.nets import making
from steplab.runner.nets.net import Net
from steplab.runner.ranks import group_folder
from steplab.runner.ranks.group_folder import GroupFolder
from steplab.runner.ranks.launchers import launcher_names, load_launcher
from steplab.runner.ranks.launching import Launch, Launcher, ProcessEnd
from steplab.runner.ranks.members import Member
from steplab.runner.ranks.private_network import open_network
from steplab_worker.placement import Placement

MEMBER = Path(__file__).with_name("member.py")
MEMBERS = (Member(0, "rank", "rank 0"), Member(1, "rank", "rank 1"), Member(2, "scheduler", "scheduler 0"))
PATIENCE_S = 180.0

Start = Callable[..., Launcher]


@pytest.fixture
def folder() -> Iterator[GroupFolder]:
    folder = GroupFolder()
    yield folder
    folder.remove()


def launch_of(folder: GroupFolder, deeds: Mapping[int, str], command: tuple[str, ...], **more: object) -> Launch:
    """Members on the host that the variable GROUND names with the way there and its address, or here."""
    host, reach, address = json.loads(os.environ.get("GROUND", '["here", "", "127.0.0.1"]'))
    placements = tuple(Placement(host, 0, address) for _ in MEMBERS)
    variables = {**os.environ, "DEEDS": json.dumps(deeds), "TMPDIR": str(folder.temporary)}
    return Launch(MEMBERS, placements, command, channel(), folder, variables, {host: reach}, **more)  # type: ignore[arg-type]


def channel() -> str:
    """Where a laboratory would listen."""
    return os.environ.get("CHANNEL", "unix:/nowhere")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Net, Path]]:
    """A cluster in a box of two hosts, and the home that it is in."""
    folder = tmp_path_factory.mktemp("ground")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPLAB_HOME", str(folder))
        net = making.up("contract", 2)
        try:
            yield net, folder
        finally:
            making.down(net.name)


def ground(box: tuple[Net, Path], reach: str) -> dict[str, str]:
    """The variables that lead to the second host of a box."""
    (first, last), folder = box[0].hosts, box[1]
    variables = {"GROUND": json.dumps([last.name, reach, last.address]), "CHANNEL": f"tcp:{first.address}:1"}
    return {**variables, "STEPLAB_HOME": str(folder)}


@pytest.fixture(scope="module")
def namespaces(box: tuple[Net, Path]) -> Mapping[str, str]:
    """The variables that lead to a host whose namespaces can be entered."""
    return ground(box, box[0].name)


@pytest.fixture(scope="module")
def ssh(box: tuple[Net, Path]) -> Iterator[Mapping[str, str]]:
    """The variables that lead to a host with a server of ssh."""
    if os.geteuid():
        pytest.skip(sshd.NEEDS_ROOT)
    with sshd.servers(*box) as servers:
        yield {"PATH": servers.variables["PATH"], **ground(box, "")}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Mapping[str, str]]:
    """The variables that lead `srun` to a node of a real Slurm; outside of an allocation it makes one for each step."""
    with SlurmBox(nodes=2, cpus=8) as box:
        yield {"GROUND": json.dumps(["n2", "n2", "127.0.0.1"]), "CHANNEL": "tcp:127.0.0.1:1", **box.variables}


# The launchers that need another host than this one, and the fixture that has one; each is made only when asked for.
GROUNDS = {"srun": "slurm", "mpiexec_srun": "slurm", "ssh": "ssh", "mpiexec_ssh": "ssh", "namespaces": "namespaces"}


@pytest.fixture(params=launcher_names())
def launcher_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param in GROUNDS:
        for name, value in request.getfixturevalue(GROUNDS[request.param]).items():
            monkeypatch.setenv(name, value)
    return str(request.param)


@pytest.fixture
def start(launcher_name: str, folder: GroupFolder, no_orphans: Callable[[], None]) -> Iterator[Start]:
    """Start three members that do these deeds; all of them are ended with the test."""
    launchers: list[Launcher] = []

    def started(
        deeds: Mapping[int, str] | None = None,
        command: tuple[str, ...] = (sys.executable, str(MEMBER)),
        **more: object,
    ) -> Launcher:
        launcher = load_launcher(launcher_name)(launch_of(folder, deeds or {}, command, **more))
        launchers.append(launcher)
        launcher.start()
        return launcher

    yield started
    for launcher in launchers:
        launcher.end()


def until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def log(launcher: Launcher, member: int) -> str:
    return "".join(path.read_text() for path in launcher.logs(member)[:1] if path.exists())


def are_up(launcher: Launcher) -> Callable[[], bool]:
    return lambda: all(f"member {member.number} " in log(launcher, member.number) for member in MEMBERS)


def end_of(launcher: Launcher, member: int) -> ProcessEnd:
    ends: list[ProcessEnd] = []

    def look() -> bool:
        if end := launcher.ended():
            ends.append(end)
        return any(member in end.members for end in ends)

    until(look)
    return next(end for end in ends if member in end.members)


def test_each_member_starts_knows_its_number_and_has_a_log_of_its_own(start: Start) -> None:
    launcher = start()
    until(are_up(launcher))
    for member in MEMBERS:
        (line,) = [line for line in log(launcher, member.number).splitlines() if line.startswith("member")]
        assert line.split()[1:3] == [str(member.number), channel()]


@pytest.mark.parametrize("member", [1, 2])
def test_an_exit_code_is_told_with_its_member(start: Start, member: int) -> None:
    assert end_of(start({member: "exit:3"}), member).code == 3


@pytest.mark.parametrize("member", [1, 2])
def test_a_death_by_a_signal_is_a_negative_code(start: Start, member: int) -> None:
    assert end_of(start({member: "kill"}), member).code == -signal.SIGKILL


def test_members_that_all_leave_well_end_with_zero_each_told_once(start: Start) -> None:
    launcher = start({0: "exit:0", 1: "exit:0", 2: "exit:0"})
    launcher.wait([0, 1, 2], time.monotonic() + PATIENCE_S)
    ends = [end for _ in range(10) if (end := launcher.ended())]
    assert {end.code for end in ends} == {0}
    assert sorted(number for end in ends for number in end.members) == [0, 1, 2]


def test_while_members_live_no_end_is_told(start: Start) -> None:
    launcher = start()
    until(are_up(launcher))
    assert launcher.ended() is None


def test_a_signal_reaches_every_member(start: Start) -> None:
    launcher = start()
    until(are_up(launcher))
    launcher.signal(signal.SIGUSR1)
    until(lambda: all("signalled" in log(launcher, member.number) for member in MEMBERS))


def test_a_stubborn_member_is_killed(start: Start, no_orphans: Callable[[], None]) -> None:
    launcher = start({0: "stubborn", 1: "stubborn", 2: "stubborn"})
    until(are_up(launcher))
    launcher.end()
    no_orphans()
    launcher.end()  # a second time does nothing


def test_ended_in_the_middle_of_the_start_nobody_stays(start: Start, no_orphans: Callable[[], None]) -> None:
    start({0: "stubborn"}).end()
    no_orphans()


def test_a_program_that_does_not_exist_is_told(start: Start) -> None:
    try:
        launcher = start(command=("/nowhere/python",))
    except EnvironmentFault as fault:
        assert "/nowhere/python cannot be started" in str(fault)
    else:
        assert end_of(launcher, 0).code != 0


# A step of Slurm is its daemon's child, in its daemon's network; groups with a network of their own are on one node.
@pytest.mark.parametrize("launcher_name", sorted({*launcher_names()} - {"srun", "mpiexec_srun"}), indirect=True)
def test_members_are_in_the_groups_private_network(start: Start) -> None:
    network = open_network()
    try:
        launcher = start(network=network)
    finally:
        network.close()
    until(are_up(launcher))
    networks = {log(launcher, member.number).split()[3] for member in MEMBERS}
    assert len(networks) == 1
    assert networks != {str(Path("/proc/self/ns/net").readlink())}


def test_the_processes_that_it_started_are_known(start: Start) -> None:
    launcher = start()
    assert launcher.pids()
    for pid in launcher.pids():
        os.kill(pid, 0)


LABORATORY = """
import sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1], sys.argv[3]]
import test_launchers as contract
folder = contract.GroupFolder()
launcher = contract.load_launcher(sys.argv[2])(contract.launch_of(folder, {}, (sys.executable, str(contract.MEMBER))))
launcher.start()
contract.until(contract.are_up(launcher))
print("up", flush=True)
time.sleep(1000)
"""


def test_members_die_with_a_killed_laboratory(launcher_name: str, no_orphans: Callable[[], None]) -> None:
    command = [sys.executable, "-c", LABORATORY, str(MEMBER.parent), launcher_name, str(Path(sshd.__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as laboratory:
        assert laboratory.stdout is not None
        assert laboratory.stdout.readline() == "up\n"
        laboratory.kill()
    no_orphans()
    group_folder.sweep()

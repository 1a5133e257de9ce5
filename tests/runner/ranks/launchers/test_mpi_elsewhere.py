"""How an MPI job over other hosts is told where its ranks are, and how what they print is sorted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from steplab.runner.ranks import mpi_agent
from steplab.runner.ranks.group_folder import GroupFolder
from steplab.runner.ranks.launchers.mpiexec_ssh import MpiexecSshLauncher
from steplab.runner.ranks.launching import Launch
from steplab.runner.ranks.members import Member
from steplab_worker.placement import Placement

# Stands for `mpiexec`: writes down how it was called and prints as it does, one rank's line in two pieces.
MPIEXEC = """#!/bin/sh
printf "%s\\n" "$@" > "$CALLED"
env | grep ^SLURM > "$CALLED.env"
echo "its own word"
echo "[1,0]<stdout>:first of 0"
printf "[1,1]<stderr>:first of [1,1]<stderr>:1\\n"
exit 3
"""


@pytest.fixture
def folder() -> Iterator[GroupFolder]:
    folder = GroupFolder()
    yield folder
    folder.remove()


@pytest.fixture
def launcher(tmp_path: Path, folder: GroupFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[MpiexecSshLauncher]:
    for name, text in (("mpiexec", MPIEXEC), ("ssh", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)
    members = tuple(Member(number, "rank", f"rank {number}") for number in range(3))
    hosts = ("anna", "anna", "berta")
    placements = tuple(Placement(host, 0, f"10.0.0.{len(host)}") for host in hosts)
    variables = {"PATH": path, "CALLED": str(tmp_path / "called"), "SLURM_JOB_ID": "7", "SLURM_CONF": "/x"}
    reach = {"anna": "me@anna", "berta": ""}
    launch = Launch(members, placements, ["python", "worker"], "tcp:10.0.0.9:5", folder, variables, reach)
    launcher = MpiexecSshLauncher(launch)
    launcher.start()
    launcher.wait([0], float("inf"))
    yield launcher
    launcher.end()


def words(tmp_path: Path) -> list[str]:
    return (tmp_path / "called").read_text().splitlines()


def test_ranks_fill_hosts_that_have_names_which_nobody_resolves(launcher: MpiexecSshLauncher, tmp_path: Path) -> None:
    called = words(tmp_path)
    assert called[called.index("--host") + 1] == "steplab-host-0:2,steplab-host-1:1"
    assert called[called.index("--map-by") + 1] == "slot"


def test_everybody_speaks_on_the_addresses_of_the_trial(launcher: MpiexecSshLauncher, tmp_path: Path) -> None:
    called = words(tmp_path)
    for parameter in ("btl_tcp_if_include", "oob_tcp_if_include"):
        assert called[called.index(parameter) + 1] == "10.0.0.9/31,10.0.0.4/31,10.0.0.5/31"


def test_its_agent_knows_the_way_and_no_command_line_has_the_token(
    launcher: MpiexecSshLauncher, tmp_path: Path, folder: GroupFolder
) -> None:
    called = words(tmp_path)
    assert called[called.index("plm_rsh_agent") + 1] == str(folder.path / "agent")
    order = mpi_agent.Order(**json.loads((folder.path / mpi_agent.ORDER).read_text()))
    assert order.names == {"steplab-host-0": "anna", "steplab-host-1": "berta"}
    way = order.ways["steplab-host-0"]
    assert (way[0], way[way.index("--") + 1]) == (str(tmp_path / "ssh"), "me@anna")
    assert order.document["token"] == folder.token
    assert folder.token not in " ".join([*called, *way])


def test_an_allocation_is_not_open_mpis_to_look_at(launcher: MpiexecSshLauncher, tmp_path: Path) -> None:
    assert (tmp_path / "called.env").read_text() == "SLURM_CONF=/x\n"


def test_what_ranks_print_is_sorted_into_their_logs(launcher: MpiexecSshLauncher, folder: GroupFolder) -> None:
    assert launcher.ended() is not None
    own, mpiexecs = launcher.logs(1)
    assert own.read_text() == "first of 1\n"
    assert launcher.logs(0)[0].read_text() == "first of 0\n"
    assert mpiexecs.read_text() == "its own word\n"


def test_a_host_that_its_agent_lost_is_the_reason(launcher: MpiexecSshLauncher, folder: GroupFolder) -> None:
    (folder.path / mpi_agent.LOST).write_text("berta")
    end = launcher.ended()
    assert end is not None
    assert (end.code, end.reason) == (3, "the host berta was lost")

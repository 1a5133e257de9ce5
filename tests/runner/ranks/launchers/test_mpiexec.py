"""How `mpiexec` is told what to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steplab.runner.ranks.group_folder import GroupFolder
from steplab.runner.ranks.launchers.mpiexec import MpiexecLauncher
from steplab.runner.ranks.launching import Launch
from steplab.runner.ranks.members import Member
from steplab_worker.placement import Placement

# Stands for `mpiexec`: writes down what it was called with, then ends as told.
MPIEXEC = '#!/bin/sh\nprintf "%s\\n" "$@" > "$CALLED"\nenv | grep ^PMIX > "$CALLED.env"\nexit 137\n'


@pytest.fixture
def folder() -> Iterator[GroupFolder]:
    folder = GroupFolder()
    yield folder
    folder.remove()


@pytest.fixture
def launcher(tmp_path: Path, folder: GroupFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[MpiexecLauncher]:
    (tmp_path / "mpiexec").write_text(MPIEXEC)
    (tmp_path / "mpiexec").chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)
    members = tuple(Member(number, "rank", f"rank {number}") for number in range(3))
    placements = tuple(Placement("here", number, "127.0.0.1") for number in range(3))
    variables = {"PATH": path, "CALLED": str(tmp_path / "called")}
    launcher = MpiexecLauncher(Launch(members, placements, ["python", "worker"], "unix:/x", folder, variables))
    yield launcher
    launcher.end()


def test_all_ranks_are_one_job_each_told_its_number_by_a_variable(
    launcher: MpiexecLauncher, tmp_path: Path, folder: GroupFolder
) -> None:
    launcher.start()
    launcher.wait([0], float("inf"))
    words = (tmp_path / "called").read_text().splitlines()
    assert words[:2] == ["-n", "3"]
    worker = ["python", "worker", "--channel", "unix:/x", "--room", str(folder.path)]
    assert words[words.index("python") :] == [*worker, "--rank-variable", "OMPI_COMM_WORLD_RANK"]


def test_its_files_are_in_the_groups_folders_and_it_is_reached_over_loopback(
    launcher: MpiexecLauncher, tmp_path: Path, folder: GroupFolder
) -> None:
    launcher.start()
    launcher.wait([0], float("inf"))
    words = (tmp_path / "called").read_text().splitlines()
    parameters = {words[at + 1]: words[at + 2] for at, word in enumerate(words) if word == "--mca"}
    assert parameters["orte_tmpdir_base"] == str(folder.path)
    assert parameters["oob_tcp_if_include"] == "lo"
    assert "PMIX_MCA_ptl_base_if_include=lo" in (tmp_path / "called.env").read_text()


def test_its_exit_code_for_a_killed_rank_is_a_signal_of_all_its_ranks(launcher: MpiexecLauncher) -> None:
    launcher.start()
    launcher.wait([2], float("inf"))
    end = launcher.ended()
    assert end is not None
    assert (end.members, end.code) == ((0, 1, 2), -9)


def test_its_own_words_stand_behind_a_ranks(launcher: MpiexecLauncher, folder: GroupFolder) -> None:
    assert [path.name for path in launcher.logs(1)] == ["rank1.log", "launcher.log"]

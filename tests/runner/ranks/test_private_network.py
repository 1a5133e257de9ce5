"""The ranks' own network: reachable by nobody else; where there is none, people are told."""

from __future__ import annotations

import functools
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.runner.ranks import private_network
from steplab.study.file import parse_study

# A user namespace in which no network namespace can be made: what a system that forbids them looks like.
FORBIDDEN = "echo 0 > /proc/sys/user/max_net_namespaces; exec {}"
SERVER = """
import socket
with socket.socket() as server:
    server.bind(("127.0.0.1", {port}))
    server.listen()
    print("listening", flush=True)
    server.accept()[0].sendall(b"inside")
"""


def test_a_door_inside_is_not_the_same_door_outside() -> None:
    """Both listen on the same address and port; who calls from outside meets the one outside."""
    network = private_network.open_network()
    with socket.socket() as outside:
        outside.bind(("127.0.0.1", 0))
        outside.listen()
        port = outside.getsockname()[1]
        command = [sys.executable, "-c", SERVER.format(port=port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=network.enter) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"listening\n"
            with socket.create_connection(("127.0.0.1", port), timeout=120):
                outside.accept()[0].close()
            inside = [
                sys.executable,
                "-c",
                f"import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(20))",
            ]
            said = subprocess.run(inside, capture_output=True, preexec_fn=network.enter, check=True).stdout
            assert said == b"b'inside'\n"
    network.close()


def test_a_process_inside_stays_the_same_user_and_sees_loopback_alone(tmp_path: Path) -> None:
    network = private_network.open_network()
    code = f"import os; open({str(tmp_path / 'mine')!r}, 'w').close(); print(os.getuid(), os.listdir('/sys/class/net'))"
    ids = "import socket; print([name for _, name in socket.if_nameindex()])"
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=True, preexec_fn=network.enter)
    assert run([sys.executable, "-c", code]).stdout.split()[0] == str(os.getuid())
    assert run([sys.executable, "-c", ids]).stdout.strip() == "['lo']"
    assert (tmp_path / "mine").stat().st_uid == os.getuid()
    network.close()


def forbidden(*arguments: object) -> list[str]:
    """A command where no network namespace can be made."""
    inner = shlex.join([sys.executable, "-m", "steplab", *map(str, arguments)])
    return ["unshare", "--user", "--map-root-user", "sh", "-c", FORBIDDEN.format(inner)]


def ran(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def test_doctor_says_that_ranks_are_open_to_others(tmp_path: Path) -> None:
    done = ran(forbidden("doctor"), tmp_path)
    assert "network of several ranks: open to others, because this system allows no private one" in done.stdout


@pytest.mark.framework("torch")
def test_an_ordinary_user_gets_a_private_network_too(tmp_path: Path, study_file: Callable[..., Path]) -> None:
    study = study_file(framework=["torch"], workers=[2], measure="phases = false")
    ordinary = ["unshare", "--user", "--map-user=1000", "--map-group=1000", sys.executable, "-m", "steplab"]
    done = ran([*ordinary, "run", str(study), "--out", "out", "--limit", "1"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


@pytest.mark.framework("torch")
def test_run_warns_and_runs_where_there_is_no_private_network(tmp_path: Path, study_file: Callable[..., Path]) -> None:
    study = study_file(framework=["torch"], workers=[2], design="", measure="phases = false")
    done = ran(forbidden("run", study, "--out", "out", "--limit", "1"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning: ranks get no private network here" in done.stderr
    assert "PyTorch: rank 0's store and each rank's gloo or NCCL on 127.0.0.1" in done.stderr


SUDDEN = """
from steplab.runner.environments import registry
from steplab.runner.ranks import group
group.obstacle = lambda: ""  # as it was when the study began
try:
    group.RankGroup(group.GroupKey("torch", "", 2, 1, 2), registry.find("torch"), [])
except group.EnvironmentFault as fault:
    print(fault)
"""


@pytest.mark.framework("torch")
def test_ranks_whose_private_network_fails_later_do_not_start(tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-c", SUDDEN])
    done = ran(["unshare", "--user", "--map-root-user", "sh", "-c", FORBIDDEN.format(command)], tmp_path)
    assert done.stdout.startswith("the ranks' private network cannot be made ("), done.stderr


@pytest.mark.parametrize(
    ("factors", "told"),
    [
        ('framework = ["tensorflow"]\nworkers = [1, 2]', ["TensorFlow"]),
        ('framework = ["tensorflow"]\nworkers = [1]', []),
        ('framework = ["tensorflow"]', []),
        ("workers = [2]", ["PyTorch"]),
        ("nodes = [1, 2]", ["PyTorch"]),
        ('framework = ["synthetic", "velox"]\nworkers = [4]', []),
    ],
)
def test_doors_are_told_of_studies_with_several_ranks(monkeypatch: Any, factors: str, told: list[str]) -> None:
    monkeypatch.setattr(private_network, "obstacle", lambda: "it is forbidden")
    study = parse_study(f'[study]\nname = "s"\nkind = "step"\n[factors]\n{factors}\nbatch_size = [8]\n', Path("s.toml"))
    assert [door.partition(":")[0] for door in private_network.open_doors(study)] == told


def test_nothing_is_told_where_ranks_have_a_network_of_their_own() -> None:
    study = parse_study('[study]\nname = "s"\nkind = "step"\n[factors]\nworkers = [2]\n', Path("s.toml"))
    assert private_network.open_doors(study) == []

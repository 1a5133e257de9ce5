"""Hosts over ssh: what is wrong with them is one sentence, and nothing secret is on a command line."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from steplab.core.catalogue import WORKER
from steplab.core.errors import EnvironmentFault
from steplab.runner.ranks import keepers, ssh
from steplab.runner.ranks.ssh import Looked
from steplab.runner.ssh_hosts import expect_different, expect_environments, listen_address
from steplab_worker import keeper


def looked(name: str, host: str = "", address: str = "10.0.0.1", seen: str = "127.0.0.1", missing: str = "") -> Looked:
    return Looked(name, host or name, "boot", address, seen, (missing,) if missing else ())


def test_an_environment_that_a_host_lacks_is_told() -> None:
    expect_environments(looked("a"))
    with pytest.raises(EnvironmentFault, match="the host 'a' has no environment 'torch'; make it there"):
        expect_environments(looked("a", missing="torch"))


def test_two_names_of_one_host_are_told() -> None:
    expect_different([looked("a"), looked("b")])
    with pytest.raises(EnvironmentFault, match="'a' and 'c' are one host"):
        expect_different([looked("a", "same"), looked("b"), looked("c", "same")])


def test_a_loopback_address_is_no_way_between_hosts() -> None:
    expect_different([looked("a", address="127.0.0.1")])
    with pytest.raises(EnvironmentFault, match=r"'a' is reached at 127\.0\.1\.1, where no other host can reach it"):
        expect_different([looked("a", address="127.0.1.1"), looked("b")])


def test_the_laboratory_listens_where_it_is_seen_if_that_is_its_own_address() -> None:
    assert listen_address([looked("a")]) == "127.0.0.1"
    with pytest.raises(EnvironmentFault, match=r"sees this machine at 192\.0\.2\.1, which is none of its own"):
        listen_address([looked("a", seen="192.0.2.1")])


def test_an_interpreter_is_looked_for_at_the_same_path_then_in_the_home_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path))
    python = tmp_path / "envs" / "torch" / "bin" / "python"
    assert keepers.places(str(python)) == [str(python), "envs/torch/bin/python"]
    assert keepers.places("/usr/bin/python3") == ["/usr/bin/python3"]
    assert keeper.python(["/nowhere/python", "envs/torch/bin/python"]) is None
    python.parent.mkdir(parents=True)
    python.touch(0o700)
    assert keeper.python(["/nowhere/python", "envs/torch/bin/python"]) == str(python)


def test_a_look_tells_what_is_missing_and_how_the_host_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.9 5000 10.0.0.1 22")
    seen = keeper.look({"programs": [], "pythons": {"torch": ["/nowhere/python"], "jax": ["/bin/sh"]}})
    assert (seen["seen"], seen["address"], seen["missing"]) == ("10.0.0.9", "10.0.0.1", ["torch"])


def test_the_token_goes_over_standard_input_and_is_on_no_command_line() -> None:
    assert b"the-token" in keepers.sent({"task": "run", "token": "the-token"})
    assert "the-token" not in " ".join(ssh.command("anna"))


def test_a_host_is_never_taken_for_an_option() -> None:
    command = ssh.command("anna")
    assert command[command.index("--") + 1] == "anna"
    assert "-oBatchMode=yes" in command


def test_a_member_elsewhere_gets_what_matters_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("API_TOKEN", "secret")
    monkeypatch.setenv("HOME", "/home/here")
    ambient = {"OMP_WAIT_POLICY": "passive", "API_TOKEN": "secret", "HOME": "/home/here", "TMPDIR": "/here", "SET": "1"}
    assert keepers.of_the_laboratory(ambient) == {"OMP_WAIT_POLICY": "passive", "SET": "1"}


def test_the_worker_is_sent_whole() -> None:
    names = zipfile.ZipFile(io.BytesIO(keepers.archive(WORKER))).namelist()
    assert {"__main__.py", "rank.py", "adapters/torch/__init__.py"} <= set(names)

"""Frameworks that break while they start, or whose helpers die: the record says so and nothing stays behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from steplab.runner.environments import registry
from steplab.runner.ranks import group_folder
from steplab.runner.ranks.conversation import Conversation
from steplab.runner.ranks.group import RankGroup
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.pool import Pool
from steplab_worker.job import TrialJob

START_S = 300.0
JOB = TrialJob(
    "t", 0, "step", {}, "mlp", {}, (1, 28, 28), 10, "mnist", "", 4, 1, "sync", "sgd", 0.1, 0, 1, {}, False, 0, 1
)


@pytest.fixture
def rooms(monkeypatch):
    """A short folder for everything temporary; no process that names it may survive the test."""
    with tempfile.TemporaryDirectory(prefix="sl", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)
        assert not settle(lambda: left_running(folder))


@pytest.fixture
def fake_home(rooms, monkeypatch):
    monkeypatch.setenv("STEPLAB_HOME", str(rooms / "home"))
    return rooms


@pytest.fixture
def memory(monkeypatch):
    """A part of the machine's memory that tests beside this one do not sweep."""
    with tempfile.TemporaryDirectory(prefix="sl", dir=group_folder.SHARED_MEMORY) as folder:
        monkeypatch.setattr(group_folder, "SHARED_MEMORY", Path(folder))
        yield Path(folder)


def left_running(folder):
    found = psutil.process_iter(["cmdline"])
    return [one.info["cmdline"] for one in found if any(str(folder) in word for word in one.info["cmdline"] or [])]


def settle(look, seconds=120.0):
    """What is still seen after some time, at most that long."""
    deadline = time.monotonic() + seconds
    while (seen := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return seen


def add_fake(rooms, framework, does):
    """Register an interpreter that does what the test wants when it is to run a rank."""
    script = rooms / f"{framework}-python"
    script.write_text(f"#!/bin/sh\n{does}\n")
    script.chmod(0o755)
    note = registry.folder(framework) / "steplab.json"
    note.parent.mkdir(parents=True)
    note.write_text(
        json.dumps({"name": framework, "framework": framework, "python": str(script), "version": "0", "lock": []})
    )
    return registry.find(framework)


def opened(framework, processes=2, strategy=""):
    group = RankGroup(GroupKey(framework, "", processes, 1, processes, strategy), registry.find(framework), [])
    return group, Conversation(group, time.monotonic() + START_S, lambda: None).open()


def test_a_study_goes_on_past_frameworks_that_cannot_import_or_die_at_the_start(fake_home):
    add_fake(fake_home, "mxnet", f'exec {sys.executable} "$@"')  # an interpreter without MXNet
    add_fake(fake_home, "torch", "kill -SEGV $$")
    study = fake_home / "study.toml"
    study.write_text(
        '[study]\nname = "s"\nkind = "step"\n[factors]\nframework = ["mxnet", "torch", "synthetic"]\nworkers = [2]\n'
        "[design]\nreplicates = 1\n[measure]\niterations = 5\nretries = 0\n"
    )
    command = [sys.executable, "-m", "steplab", "run", str(study), "--out", str(fake_home / "out"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    records = [json.loads(path.read_bytes()) for path in (fake_home / "out").rglob("records/**/*.json")]
    said = {one["config"]["framework"]: (one["status"], one["reason"]) for one in records}
    assert said["synthetic"] == ("ok", "")
    assert said["mxnet"][0] == "failed"
    assert "No module named 'mxnet'" in said["mxnet"][1]
    assert said["torch"][0] == "crashed"
    assert "SIGSEGV" in said["torch"][1]


def test_a_framework_that_never_answers_is_given_up_and_its_helpers_with_it(fake_home):
    add_fake(fake_home, "mxnet", f"exec sh -c 'sleep 1000; true' {fake_home}")
    pool = Pool([])
    failure = pool.group(GroupKey("mxnet", "", 2, 1, 2, "sync"), 0, 1.0, lambda: None)
    assert failure.status == "timeout"
    assert not settle(lambda: left_running(fake_home))


@pytest.mark.parametrize("framework", ["torch", "chainer"])
def test_a_rank_stopped_before_it_is_ready_does_not_outlive_a_killed_laboratory(fake_home, memory, framework):
    """Neither one that the laboratory starts nor one that a launcher starts."""
    add_fake(fake_home, framework, f"echo up >> {fake_home}/up; kill -STOP $$")
    command = [sys.executable, "-c", LABORATORY, framework, memory]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as laboratory:
        assert settle(lambda: len(started(fake_home)) < 2, START_S) is False
        laboratory.kill()
    assert not settle(lambda: left_running(fake_home))


def started(folder):
    path = folder / "up"
    return path.read_text().split() if path.exists() else []


def test_a_temporary_folder_with_a_long_name_serves(rooms):
    long = rooms / ("a" * 60) / ("b" * 60)
    long.mkdir(parents=True)
    done = run_synthetic(rooms, {"TMPDIR": str(long)}, workers=2)
    assert done.returncode == 0, done.stderr
    assert not list(long.iterdir())


@pytest.mark.framework("chainer")
def test_a_temporary_folder_with_a_long_name_serves_a_launcher(rooms, monkeypatch):
    long = rooms / ("a" * 60) / ("b" * 60)
    long.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    group, failure = opened("chainer")
    group.close()
    assert failure is None
    assert not list(long.iterdir())


def test_too_few_file_descriptors_are_a_record_with_its_reason(rooms):
    done = run_synthetic(rooms, {}, workers=60, before="ulimit -n 40; ")
    assert done.returncode == 3, done.stderr
    (record,) = [json.loads(path.read_bytes()) for path in (rooms / "out").rglob("records/**/*.json")]
    assert record["status"] == "failed"
    assert "Too many open files" in record["reason"]


@pytest.mark.parametrize("inodes", [2, 4, 6])
def test_a_temporary_folder_without_inodes_is_a_record_with_its_reason(rooms, inodes):
    place = rooms / "small"
    place.mkdir()
    mount = f"mount -t tmpfs -o nr_inodes={inodes},size=1m none {place}; TMPDIR={place} "
    done = run_synthetic(rooms, {}, workers=2, before=mount, around=["unshare", "--user", "--map-root-user", "--mount"])
    assert done.returncode == 3, done.stderr
    (record,) = [json.loads(path.read_bytes()) for path in (rooms / "out").rglob("records/**/*.json")]
    assert (record["status"], "No space left on device" in record["reason"]) == ("failed", True)


def run_synthetic(folder, variables, workers, before="", around=()):
    study = folder / "study.toml"
    study.write_text(
        f'[study]\nname = "s"\nkind = "step"\n[factors]\nframework = ["synthetic"]\nworkers = [{workers}]\n'
        "[design]\nreplicates = 1\n[measure]\niterations = 5\nretries = 0\n"
    )
    command = f"{before}{sys.executable} -m steplab run {study} --out {folder / 'out'}"
    return subprocess.run(
        [*around, "sh", "-c", command], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def test_an_interpreter_that_cannot_be_executed_is_a_failure(fake_home):
    environment = add_fake(fake_home, "torch", "exit 0")
    environment.python.write_bytes(b"\x00no program")
    failure = Pool([]).group(GroupKey("torch", "", 2, 1, 2), 0, 5.0, lambda: None)
    assert failure.status == "failed"
    assert "cannot be started" in failure.reason
    assert not list(fake_home.glob("steplab-*"))


def test_a_launcher_that_is_not_installed_is_a_failure(fake_home, monkeypatch):
    add_fake(fake_home, "chainer", "exit 0")
    monkeypatch.setenv("PATH", str(fake_home))
    failure = Pool([]).group(GroupKey("chainer", "", 2, 1, 2), 0, 5.0, lambda: None)
    assert failure.reason == "mpiexec cannot be started: No such file or directory"


def test_ranks_that_die_under_a_launcher_are_told_apart_from_it(fake_home):
    add_fake(fake_home, "chainer", "kill -KILL $$")
    failure = Pool([]).group(GroupKey("chainer", "", 2, 1, 2), 0, 30.0, lambda: None)
    assert failure.status == "killed"
    assert "rank 0 was killed while starting by SIGKILL" in failure.reason
    assert "job" in failure.log_tail  # the launcher's own words on it, as far as it has come with them


@pytest.mark.framework("mxnet")
def test_a_taken_port_is_answered_with_another(rooms, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("DMLC_PS_ROOT_PORT", str(taken.getsockname()[1]))
        group, failure = opened("mxnet", strategy="sync")
        group.close()
    assert failure is None


@pytest.mark.framework("mxnet")
def test_the_death_of_a_server_ends_the_trial(rooms):
    group, failure = opened("mxnet", strategy="ps-async")
    assert failure is None
    os.kill(group.hello[3].pid, signal.SIGKILL)
    outcome = Conversation(group, time.monotonic() + START_S, lambda: None).trial(JOB, None)
    group.kill()
    assert outcome.failure.status == "killed"
    assert outcome.failure.reason.startswith("server 0 was killed")


@pytest.mark.framework("chainer")
def test_the_death_of_a_launched_rank_ends_the_trial(rooms):
    group, failure = opened("chainer")
    assert failure is None
    os.kill(group.hello[1].pid, signal.SIGKILL)
    outcome = Conversation(group, time.monotonic() + START_S, lambda: None).trial(JOB, None)
    group.kill()
    assert outcome.failure.status == "killed"
    assert outcome.failure.reason.startswith("rank 1 was killed")


@pytest.mark.framework("chainer")
def test_the_death_of_a_launcher_takes_its_ranks(rooms):
    group, failure = opened("chainer")
    assert failure is None
    (mpiexec,) = group.pids - {hello.pid for hello in group.hello.values()}
    os.kill(mpiexec, signal.SIGKILL)
    group.kill()
    assert not settle(lambda: left_running(rooms))


LABORATORY = """
import pathlib, sys, time
from steplab.runner.environments import registry
from steplab.runner.ranks import group_folder
group_folder.SHARED_MEMORY = pathlib.Path(sys.argv[2])
from steplab.runner.ranks.conversation import Conversation
from steplab.runner.ranks.group import RankGroup
from steplab.runner.ranks.group_key import GroupKey
key = GroupKey(sys.argv[1], "", 2, 1, 2, "sync")
group = RankGroup(key, registry.find(sys.argv[1]), [])
print(Conversation(group, time.monotonic() + 150, lambda: None).open(), flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=pytest.mark.framework(name)) for name in ("mxnet", "chainer")]
)
def test_nothing_survives_a_killed_laboratory(rooms, memory, framework):
    command = [sys.executable, "-c", LABORATORY, framework, memory]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as laboratory:
        said = laboratory.stdout.readline()
        running = left_running(rooms)
        laboratory.kill()
    assert said == "None\n"
    assert len(running) >= 3
    assert not settle(lambda: left_running(rooms))
    group_folder.sweep()
    assert not list(rooms.glob("steplab-*"))
    assert not list(memory.iterdir())

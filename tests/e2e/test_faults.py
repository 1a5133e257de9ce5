"""Nothing is lost: kills, hangs, crashes, full disks and two laboratories at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.store import records, tables
from steplab.store.paths import StudyFolder

STEPLAB = Path(sys.executable).with_name("steplab")
KILLS = 30


def start(study: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([STEPLAB, "run", study, "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def snapshot(folder: StudyFolder) -> dict[str, tuple[int, bytes]]:
    paths = [folder.record(trial) for trial in records.done(folder)]
    return {path.stem: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def await_records(laboratory: subprocess.Popen[bytes], folder: StudyFolder, more_than: int) -> None:
    while len(records.done(folder)) <= more_than:
        assert laboratory.poll() is None, "it ended by itself"
        time.sleep(0.02)


def test_a_study_killed_thirty_times_is_complete_in_the_end(
    tmp_path: Path, study_file: Callable[..., Path], no_orphans: Callable[..., None]
) -> None:
    study = study_file(batch_size=list(range(1, 101)), workers=[1, 2], pace=1.0, compute_s=0.004)
    folder = StudyFolder(tmp_path / "out")
    moments = random.Random(5)
    seen: dict[str, tuple[int, bytes]] = {}
    for kill in range(KILLS):
        laboratory = start(study, folder.root)
        if kill % 2:  # every other time it gets on with its work first, however slow the machine
            await_records(laboratory, folder, more_than=len(seen))
        time.sleep(moments.uniform(0.0, 1.5))
        laboratory.send_signal(signal.SIGKILL)
        laboratory.wait()
        no_orphans()
        now = snapshot(folder)
        assert seen.items() <= now.items(), "a finished trial was lost or run again"
        seen = now
    assert len(seen) >= KILLS // 2
    assert start(study, folder.root).wait() == 0
    assert seen.items() <= snapshot(folder).items()
    trials = tables.load(folder.root).trials
    assert len(trials) == trials["trial"].nunique() == 100 * 2 * 2
    assert set(trials["status"]) == {"ok"}
    assert not list(folder.records.glob(".*")), "half-written files were left"


FAULTS = {
    "raise": ("failed", "rank 1: RuntimeError: a rehearsed fault"),
    "hang": ("timeout", "no answer in time"),
    "crash": ("crashed", "rank 1 crashed in the trial with SIGABRT"),
    "kill": ("killed", "rank 1 was killed in the trial by SIGKILL"),
    "memory": ("out-of-memory", "rank 1: "),
    "chatter": ("ok", ""),
    "none": ("ok", ""),
}


def test_whatever_a_rank_does_becomes_a_record_and_the_study_goes_on(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path], no_orphans: Callable[..., None]
) -> None:
    # Only ranks that hang shall meet their deadline, however slow the machine: theirs is a study of its own.
    for out, faults, timeout_s in (("hung", ["hang"], 10), ("out", [name for name in FAULTS if name != "hang"], 300)):
        measure = f"timeout_s = {timeout_s}\nmemory_limit_mb = 300"
        study = study_file(out, workers=[2], fault=faults, fault_rank=1, measure=measure, design="seed = 2")
        ran = steplab("run", study, "--out", out, "--json")
        assert ran.code == 3
        counts = (0, 2, 0) if out == "hung" else (4, 8, 0)
        assert (ran.json["ok"], ran.json["failed"], ran.json["left"]) == counts
        no_orphans()
    whole = [record for out in ("hung", "out") for record in records.all_records(StudyFolder(tmp_path / out))]
    for record in whole:
        status, reason = FAULTS[str(record.config["fault"])]
        assert record.status == status, record.reason
        assert reason in record.reason
        retried = status in ("failed", "crashed", "killed")
        assert len(record.attempts) == (1 if retried else 0)
        if record.config["fault"] == "chatter":
            assert record.log_tail.endswith("xxx\n")
            assert len(record.log_tail) <= 4000


def test_failed_trials_run_again_when_asked(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    study = study_file(fault=["none", "raise"], measure="retries = 0")
    assert steplab("run", study, "--out", "out").code == 3
    again = steplab("run", study, "--out", "out", "--json")
    assert again.json["failed"] == 2
    retried = steplab("run", study, "--out", "out", "--retry-failed", "--json", "--limit", "1")
    assert (retried.json["ok"], retried.json["failed"], retried.json["left"]) == (2, 1, 1)


def test_two_laboratories_share_a_folder(
    tmp_path: Path, study_file: Callable[..., Path], no_orphans: Callable[..., None]
) -> None:
    study = study_file(batch_size=list(range(1, 21)), pace=1.0, compute_s=0.005)
    folder = StudyFolder(tmp_path / "out")
    both = [start(study, folder.root)]
    try:
        await_records(both[0], folder, more_than=0)
        both[0].send_signal(signal.SIGSTOP)  # until the second has done a part of the work
        os.waitpid(both[0].pid, os.WUNTRACED)
        by_first = records.done(folder)
        both.append(start(study, folder.root))
        await_records(both[1], folder, more_than=len(by_first) + 1)
        both[0].send_signal(signal.SIGCONT)
        assert [laboratory.wait() for laboratory in both] == [0, 0]
    finally:
        for laboratory in both:
            laboratory.kill()
            laboratory.wait()
    assert 0 < len(by_first) < 40
    loaded = tables.load(folder.root)
    assert len(loaded.trials) == loaded.trials["trial"].nunique() == 40
    counts = loaded.iterations.to_pandas().groupby(["trial", "mode", "rank", "iteration"]).size()
    assert set(counts) == {1}
    assert not list((folder.root / "claims").iterdir())


@pytest.mark.parametrize("times", [1, 2])
def test_interrupting_ends_cleanly(
    times: int, tmp_path: Path, study_file: Callable[..., Path], no_orphans: Callable[..., None]
) -> None:
    study = study_file(batch_size=list(range(1, 50)), pace=1.0, compute_s=0.02)
    laboratory = start(study, tmp_path / "out")
    folder = StudyFolder(tmp_path / "out")
    await_records(laboratory, folder, more_than=0)
    for _ in range(times):
        laboratory.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert laboratory.wait(120) == 130
    no_orphans()
    assert 1 <= len(records.done(folder)) < 98
    assert len(list(records.all_records(folder))) == len(records.done(folder))


FULL_DISK = """
set -e
mount -t tmpfs -o size=400k none {small}
cd {small}
set +e
{steplab} run {study} --out out 2> {kept}/err
echo $? > {kept}/code
cp -r out {kept}/out
"""


def test_a_full_disk_is_said_and_earlier_records_are_intact(tmp_path: Path, study_file: Callable[..., Path]) -> None:
    study = study_file(batch_size=list(range(1, 200)), measure="max_iterations = 1000")
    small, kept = tmp_path / "small", tmp_path / "kept"
    small.mkdir()
    kept.mkdir()
    script = FULL_DISK.format(small=small, kept=kept, study=study, steplab=STEPLAB)
    # A small file system of one's own, seen by nobody else, needs no rights in a user namespace.
    private = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    subprocess.run([*private, "bash", "-c", script], check=True, timeout=300)
    assert (kept / "code").read_text().strip() == "1"
    assert "the disk is full" in (kept / "err").read_text().splitlines()[-1]
    folder = StudyFolder(kept / "out")
    whole = list(records.all_records(folder))
    assert len(whole) >= 5
    assert all(record.status == "ok" for record in whole)

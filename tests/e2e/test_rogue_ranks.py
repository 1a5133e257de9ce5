"""Real rank processes that do not keep to the protocol: a record each, no traceback, no process left."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.core.record import Record
from steplab.store.paths import StudyFolder
from steplab.store.records import all_records
from steplab_worker.messages import PROTOCOL

ROGUE = Path(__file__).with_name("rogue.py")
ENDS = {
    1: ("ok", ""),
    2: ("failed", "rank 0: sent what is no JSON"),
    3: ("failed", "rank 0: sent 0 times of mode native where 2 were due"),
    5: ("crashed", "rank 0 ended in the trial with exit code 3"),
    6: ("failed", "rank 0: sent a wrong Block: t_iter: is 'none', where a list is due"),
    7: ("failed", "rank 0: sent a Result of 1 native iterations where no iterations were due"),
    8: ("failed", "rank 0: sent 0 times of mode native where 2 were due"),
    9: ("failed", "rank 0: sent a wrong Hello: rank: is missing"),
}
SILENT = 4


@pytest.fixture
def rogue_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home in which PyTorch's interpreter is the rogue rank."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(ROGUE))} "$@"\n')
    script.chmod(0o755)
    note = tmp_path / "home" / "envs" / "torch" / "steplab.json"
    note.parent.mkdir(parents=True)
    about = {"name": "torch", "framework": "torch", "python": str(script), "version": "0", "lock": []}
    note.write_text(json.dumps(about))
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "home"))


def study(study_file: Callable[..., Path], ways: list[int], timeout_s: float = 120) -> Path:
    measure = f"timeout_s = {timeout_s}\nretries = 0\nphases = false"
    path = study_file(framework=["torch"], network=["mlp"], batch_size=ways, measure=measure)
    path.write_text(path.read_text().replace("replicates = 2", "replicates = 1") + "[data]\nsamples = 16\n")
    return path


def records(tmp_path: Path) -> dict[int, Record]:
    return {int(record.config["batch_size"]): record for record in all_records(StudyFolder(tmp_path / "out"))}


def test_whatever_a_rank_sends_in_a_trial_is_its_record(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path], rogue_torch: None,
    no_orphans: Callable[..., None],
) -> None:  # fmt: skip
    ran = steplab("run", study(study_file, list(ENDS)), "--out", "out", "--json")
    assert ran.code == 3, ran.err
    ended = {way: (record.status, record.reason) for way, record in records(tmp_path).items()}
    assert ended == ENDS


def test_a_rank_that_says_nothing_more_is_a_timeout(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path], rogue_torch: None,
    no_orphans: Callable[..., None],
) -> None:  # fmt: skip
    ran = steplab("run", study(study_file, [SILENT], timeout_s=5), "--out", "out", "--json")
    assert ran.code == 3, ran.err
    (record,) = records(tmp_path).values()
    assert (record.status, record.reason) == ("timeout", "no answer in time in the trial")


def test_a_rank_of_another_version_is_refused(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path], rogue_torch: None,
    no_orphans: Callable[..., None],
) -> None:  # fmt: skip
    ran = steplab("run", study(study_file, [1]), "--out", "out", "--json", env={"ROGUE_PROTOCOL": str(PROTOCOL + 1)})
    assert ran.code == 3, ran.err
    (record,) = records(tmp_path).values()
    assert record.status == "failed"
    versions = f"speaks protocol {PROTOCOL + 1}, this side {PROTOCOL}"
    assert record.reason == f"rank 0: {versions}; the same version of steplab is needed on both"

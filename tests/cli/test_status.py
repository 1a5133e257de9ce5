"""`steplab status`: counts, failures and doubts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.store import overview


def test_doubtful_trials_are_counted_and_explained(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    assert steplab("run", study_file(noise=[0.0, 0.8]), "--out", "out").code == 0
    said = steplab("status", "out", "--json").json
    assert (said["ok"], said["failed"], said["left"]) == (4, 0, 0)
    assert said["doubtful"] == 2
    assert {one["config"]["noise"] for one in said["doubts"]} == {0.8}
    assert all(one["verdict"] in ("doubtful", "bad") and "%" in one["doubts"] for one in said["doubts"])
    text = steplab("status", "out").out
    assert "2 of the measured trials are doubtful" in text
    assert "verdict" in text


def test_unsupported_trials_are_counted_apart_from_failures(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(strategy=["sync", "ps-sync"], fault=["none", "raise"], measure="retries = 0")
    assert steplab("run", path, "--out", "out").code == 3
    said = steplab("status", "out", "--json").json
    assert (said["ok"], said["failed"], said["unsupported"], said["left"]) == (2, 2, 4, 0)
    assert {trial["status"] for trial in said["failures"]} == {"failed"}
    assert {trial["status"] for trial in said["refusals"]} == {"unsupported"}
    assert "no strategy 'ps-sync'" in said["refusals"][0]["reason"]
    text = steplab("status", "out").out
    assert "2 ok, 2 failed, 4 unsupported, 0 left of 8 trials" in text
    assert text.index("a rehearsed fault") < text.index("unsupported  ")  # failures first, then what is unsupported


def test_a_calm_study_has_no_doubts(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    assert steplab("run", study_file(), "--out", "out").code == 0
    assert steplab("status", "out", "--json").json["doubts"] == []
    assert "doubtful" not in steplab("status", "out").out


def test_of_very_many_new_records_only_the_ends_are_counted_until_they_are_analysed(
    in_process: Callable[..., Any],
    steplab: Callable[..., Any],
    study_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert steplab("run", study_file(noise=[0.0, 0.8]), "--out", "out").code == 0
    monkeypatch.setattr(overview, "LOOKED_THROUGH_BYTES", 0)
    before = in_process("status", "out", "--json").json
    assert (before["ok"], before["doubtful"], before["unjudged"]) == (4, 0, 4)
    assert "the times of 4 trials were not looked at" in in_process("status", "out").out
    assert in_process("analyze", "out").code == 0
    after = in_process("status", "out", "--json").json
    assert (after["ok"], after["doubtful"], after["unjudged"]) == (4, 2, 0)
    assert after["seconds"] == before["seconds"]
    assert {one["config"]["noise"] for one in after["doubts"]} == {0.8}


def test_what_failed_has_a_short_id_that_run_takes_and_only_what_varies(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(fault=["none", "raise"], optimizer=["momentum"], measure="retries = 0")
    assert steplab("run", path, "--out", "out").code == 3
    ran = steplab("status", "out", env={"COLUMNS": "80"})
    assert "fault=raise" in ran.out and "momentum" not in ran.out
    assert "--retry-failed" in ran.err
    failed = steplab("status", "out", "--json").json["failures"][0]["trial"]
    assert failed[:8] in ran.out and failed not in ran.out
    again = steplab("run", path, "--out", "out", "--trial", failed[:8], "--retry-failed", "--json").json
    assert (again["trials"], again["failed"]) == (1, 1)


def test_trials_of_levels_that_were_removed_are_counted_as_they_are_analysed(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    assert steplab("run", study_file(batch_size=[1, 2, 3]), "--out", "out").code == 0
    assert steplab("run", study_file(batch_size=[1, 2]), "--out", "out").code == 0
    told = steplab("status", "out", "--json").json
    assert (told["ok"], told["former"]) == (4, 2)
    assert "2 more are of levels that the study no longer has" in steplab("status", "out").out
    assert len(steplab("analyze", "out", "--json").json["groups"]) == 3

"""The commands around a study, as a person meets them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from steplab import kinds
from steplab.study.file import read_study


def test_a_wrong_study_is_one_sentence_exit_1_and_no_folder(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    (tmp_path / "bad.toml").write_text('[study]\nname = "bad"\n[factors]\nframework = ["synthetic"]\nbatchsize = [1]\n')
    ran = steplab("run", "bad.toml")
    assert ran.code == 1
    assert ran.err == (
        "steplab: bad.toml, line 5, factors.batchsize: unknown factor 'batchsize'; did you mean 'batch_size'? "
        + ran.err.partition("? ")[2]
    )
    assert not (tmp_path / "runs").exists()
    assert "batchsize" in steplab("run", "bad.toml", "--json").json["error"]


def test_a_missing_environment_is_said_before_anything_is_written(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(framework=["torch"])
    ran = steplab("run", path, env={"STEPLAB_HOME": str(tmp_path / "empty")})
    assert ran.code == 1
    assert "steplab env create torch" in ran.err
    assert not (tmp_path / "runs").exists()


def test_wrong_usage_is_exit_2(steplab: Callable[..., Any]) -> None:
    assert steplab("run").code == 2
    assert steplab("nonsense").code == 2


def test_dry_run_shows_the_plan_and_writes_nothing(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(batch_size=[1, 2, 3])
    ran = steplab("run", path, "--dry-run")
    assert ran.code == 0
    assert "6 trials: 3 configurations, 2 replicates" in ran.out
    assert "estimated time" in ran.out
    assert len(steplab("run", path, "--dry-run", "--json").json["plan"]) == 6
    assert not (tmp_path / "runs").exists()


def test_a_limit_stops_early_and_the_next_run_goes_on(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(batch_size=[1, 2, 3])
    first = steplab("run", path, "--limit", "2", "--json").json
    assert (first["ok"], first["left"]) == (2, 4)
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs/rehearsal/records").iterdir()}
    assert steplab("status", "runs/rehearsal", "--json").json["left"] == 4
    assert steplab("run", path, "--json").json["left"] == 0
    assert all(p.stat().st_mtime_ns == when for p, when in kept.items())


def test_another_protocol_needs_another_folder(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    assert steplab("run", study_file(), "--out", "out").code == 0
    changed = steplab("run", study_file(measure="phases = false"), "--out", "out")
    assert changed.code == 1
    assert "another kind or measurement protocol" in changed.err


def test_a_study_may_grow(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    assert steplab("run", study_file(batch_size=[1]), "--out", "out", "--json").json["ok"] == 2
    assert steplab("run", study_file(batch_size=[1, 2]), "--out", "out", "--json").json["ok"] == 4


def test_only_the_named_trial_runs(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    path = study_file(batch_size=[1, 2])
    name = steplab("run", path, "--dry-run", "--json").json["plan"][2]["trial"]
    assert steplab("run", path, "--trial", name, "--json").json["trials"] == 1
    assert "no trial 'abc'" in steplab("run", path, "--trial", "abc").err


def test_what_a_framework_cannot_do_is_recorded_as_unsupported(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(strategy=["sync", "ps-sync"])
    ran = steplab("run", path, "--out", "out", "--json")
    assert (ran.code, ran.json["ok"], ran.json["failed"], ran.json["unsupported"]) == (0, 2, 0, 2)
    told = steplab("run", path, "--out", "out")
    assert (told.code, "2 ok, 0 failed, 2 unsupported, 0 left of 4 trials" in told.out) == (0, True)


def test_a_failure_beside_what_is_unsupported_still_ends_with_3(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(strategy=["sync", "ps-sync"], fault=["none", "raise"], measure="retries = 0")
    ran = steplab("run", path, "--out", "out")
    assert (ran.code, "2 ok, 2 failed, 4 unsupported" in ran.out) == (3, True)
    assert "next: steplab status out" in ran.err  # what went wrong is worth a look before any analysis
    assert "0/8" not in ran.err  # no progress bar in a pipe


@pytest.mark.parametrize("command", ["status", "analyze", "report", "export"])
def test_a_folder_without_records_is_said(command: str, tmp_path: Path, steplab: Callable[..., Any]) -> None:
    more = ["--to", "x.csv"] if command == "export" else []
    ran = steplab(command, "nowhere", *more)
    assert ran.code == 1
    assert ran.err.startswith("steplab: nowhere: there is no such folder")


def test_the_starter_study_is_right(steplab: Callable[..., Any]) -> None:
    assert steplab("init", "new study").code == 0
    # Three batch sizes of one worker on half of the cores and on all, and of two workers; three replicates.
    trials = 27 if (os.cpu_count() or 1) > 1 else 18
    assert f"{trials} trials" in steplab("run", "new study/study.toml", "--dry-run").out
    assert "is there already" in steplab("init", "new study").err


@pytest.mark.parametrize("kind", kinds.names())
def test_there_is_a_starter_for_each_kind_of_trial(kind: str, in_process: Callable[..., Any], tmp_path: Path) -> None:
    assert in_process("init", kind, "--kind", kind, "--framework", "synthetic").code == 0
    study = read_study(tmp_path / kind / "study.toml")
    assert study.about.kind == kind
    assert isinstance(study.section, kinds.named(kind).fields)
    for other in kinds.every():
        assert not other.has_section() or f"[{other.name}]" in study.text  # as a comment at least


def test_a_starter_of_an_unknown_kind_is_refused(in_process: Callable[..., Any]) -> None:
    said = in_process("init", "new", "--kind", "tran")
    assert (said.code, "there is no kind 'tran'; allowed" in said.err) == (1, True)


def test_doctor_tells_what_is_here(steplab: Callable[..., Any]) -> None:
    said = steplab("doctor", "--json").json
    assert said["machine"]["cpus"] >= 1
    assert {"torch", "synthetic"} <= {one["name"] for one in said["environments"]}
    assert said["noise"]["verdict"]


def test_doctor_shows_units_that_people_read(in_process: Callable[..., Any]) -> None:
    shown = in_process("doctor").out
    memory = next(line.split() for line in shown.splitlines() if line.split()[:1] == ["memory"])
    assert memory[2] in ("GiB", "MiB", "TiB")
    assert float(memory[1]) < 1024
    assert not re.search(r"mhz|memory_bytes|boot|\d{7}", shown)


def test_an_interpreter_of_ones_own_is_registered(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    home = {"STEPLAB_HOME": str(tmp_path / "home")}
    missing = steplab("env", "add", "mine", "--framework", "torch", "--python", "/nowhere/python", env=home)
    assert (missing.code, "no such interpreter" in missing.err) == (1, True)
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no module' >&2\nexit 1\n")
    broken.chmod(0o755)
    said = steplab("env", "add", "mine", "--framework", "torch", "--python", broken, env=home)
    assert (said.code, "cannot import torch: no module" in said.err) == (1, True)


def test_a_damaged_record_is_put_aside_and_its_trial_measured_again(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(batch_size=[1, 2, 3])
    assert steplab("run", path, "--out", "out").code == 0
    first, second, *_ = sorted((tmp_path / "out/records").iterdir())
    first.write_text("{")
    second.write_text(second.read_text().replace('"ranks":[{', '"ranks":[{"rank":-1},{'))
    read_only = steplab("status", "out", "--json")
    assert (read_only.json["ok"], read_only.json["left"]) == (4, 2)
    assert steplab("run", path, "--out", "out", "--dry-run", "--json").json["left"] == 2
    assert first.read_text() == "{"
    ran = steplab("run", path, "--out", "out", "--json")
    assert (ran.code, ran.json["ok"], ran.json["left"]) == (0, 6, 0)
    for damaged in (first, second):
        assert f"put into out/damaged: out/records/{damaged.name}: is not a record: " in ran.err
    assert len(list((tmp_path / "out/damaged").iterdir())) == 2
    assert steplab("status", "out", "--json").json["unreadable"] == []


def test_a_failed_trial_that_was_run_again_is_exported_as_it_ended_last(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(batch_size=[1, 2])
    assert steplab("run", path, "--out", "out").code == 0
    failed = min((tmp_path / "out/records").iterdir())
    document = json.loads(failed.read_text())
    failed.write_text(json.dumps(document | {"status": "timeout", "reason": "late", "ranks": []}))

    def statuses() -> list[str]:
        assert steplab("export", "out", "--to", "trials.csv").code == 0
        return sorted(pd.read_csv(tmp_path / "trials.csv")["status"])

    assert statuses() == ["ok", "ok", "ok", "timeout"]
    assert steplab("run", path, "--out", "out", "--retry-failed").code == 0
    assert statuses() == ["ok"] * 4


def million(tmp_path: Path, design: str = "replicates = 1") -> Path:
    """A study of a million trials."""
    path = tmp_path / "million.toml"
    levels = f"batch_size = {list(range(1, 1001))}\nthreads = {list(range(1, 1001))}"
    measure = "[measure]\nwarmup = 1\niterations = 3\nphases = false"
    path.write_text(
        f'[study]\nname = "million"\n[factors]\nframework = "synthetic"\n{levels}\n[design]\n{design}\n{measure}'
    )
    return path


@pytest.mark.parametrize("mode", [("--limit", "2"), ("--dry-run",)])
def test_of_a_million_trials_a_command_makes_only_a_few(
    mode: tuple[str, ...], tmp_path: Path, in_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from steplab.api.measuring.estimate import MOST_GUESSED
    from steplab.design import configurations

    made: list[object] = []
    config, identified = configurations.Configurations.__getitem__, configurations.id_of
    counted = lambda table, at: made.append(at) or config(table, at)  # noqa: E731
    monkeypatch.setattr(configurations.Configurations, "__getitem__", counted)
    monkeypatch.setattr(configurations, "id_of", lambda *text: made.append(text) or identified(*text))
    assert in_process("run", million(tmp_path), *mode).code == 0
    # Those whose time is guessed, and those that are asked whether they can be run, which takes their ids.
    assert len(made) <= 3 * MOST_GUESSED + 100


def test_a_draw_of_more_than_there_are_is_told_before_it_runs(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(batch_size=[1, 2, 3], design='type = "random"\nn = 1_000_000')
    shown = steplab("run", path, "--dry-run")
    assert "6 trials: 3 configurations" in shown.out
    assert "1,000,000 different configurations were asked for, but only 3 can be drawn" in shown.err
    assert "only 3 can be drawn" in steplab("run", path, "--dry-run", "--json").json["note"]


def test_a_trial_is_found_by_its_id_and_failed_ones_run_again_in_a_selection_only(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    path = study_file(batch_size=[1, 2], fault="raise", measure="retries = 0")
    first, second = (one["trial"] for one in steplab("run", path, "--dry-run", "--json").json["plan"][:2])
    assert steplab("run", path, "--out", "out", "--trial", first, "--trial", second, "--json").json["failed"] == 2
    again = steplab("run", path, "--out", "out", "--trial", second, "--retry-failed", "--json").json
    assert (again["trials"], again["failed"]) == (1, 1)
    assert steplab("status", "out", "--json").json["left"] == 2


def test_an_executor_that_is_not_there_is_named_before_anything_is_planned(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    for further in ((), ("--dry-run",)):
        ran = steplab("run", study_file(batch_size=[1]), "--executor", "slrum", *further)
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert "there is no executor 'slrum'" in ran.err and "slurm" in ran.err

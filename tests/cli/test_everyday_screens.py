"""Everyday tools as a person sees them on a terminal of 80 columns: keys, completion, plans, failures, sections."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from terminal import CTRL_C, Screen, Terminal

import steplab

Show = Callable[..., Screen]
Begin = Callable[..., Terminal]
Write = Callable[..., Path]
MANY = {
    "network": ["lenet5", "mlp"], "batch_size": [8, 16], "workers": [1, 2], "threads": [1, 2],
    "strategy": ["sync", "accumulate:2"], "optimizer": ["sgd", "momentum"], "learning_rate": [0.01, 0.1],
    "noise": [0.0, 0.02], "imbalance": [0.0, 0.25], "latency_s": [0.001, 0.01],
    "bandwidth_bytes_s": [1e8, 1e9], "stamp_jitter_s": [0.0, 0.001],
}  # fmt: skip
# None of the three changes alone.
TOGETHER = (("torch", 8, 1, 1.0), ("jax", 8, 2, 2.0), ("torch", 64, 2, 4.0))


def test_a_plan_of_twelve_factors_has_every_name_and_level_whole(on_terminal: Show, study_file: Write) -> None:
    screen = on_terminal("run", study_file(design='type = "random"\nn = 20', **MANY), "--dry-run")
    assert (screen.code, screen.widest <= 80) == (0, True)
    assert "…" not in screen.text.replace("… and 37 more", "")
    for name, (low, high) in MANY.items():
        assert re.search(rf"{name} +{low}, {high}", "\n".join(screen.lines)), name
        assert f"{name}={low}" in screen.text or f"{name}={high}" in screen.text
    assert "40 trials: 20 configurations, 2 replicates" in screen.text


def test_a_plan_of_few_factors_is_a_row_a_trial(on_terminal: Show, study_file: Write) -> None:
    screen = on_terminal("run", study_file(batch_size=[8, 16], workers=[1, 2]), "--dry-run")
    assert any(re.fullmatch(r" *trial +replicate +batch_size +workers *", line) for line in screen.lines)
    assert sum(bool(re.match(r" *[0-9a-f]{16} ", line)) for line in screen.lines) == 8


def test_a_plan_says_which_trials_cannot_be_run_and_gives_them_no_time(on_terminal: Show, study_file: Write) -> None:
    path = study_file(framework=["torch", "tensorflow"], strategy=["sync", "sharded"], workers=[1], network=["mlp"])
    screen = on_terminal("run", path, "--dry-run")
    assert "2 of them cannot be run: TensorFlow has no strategy 'sharded' here, only sync" in screen.text
    supported = steplab.plan(study_file(framework=["tensorflow"], strategy=["sync"], network=["mlp"]))
    refused = steplab.plan(study_file(framework=["tensorflow"], strategy=["sharded"], network=["mlp"]))
    assert not supported.refused and refused.document()["refused"][0]["trials"] == 2
    assert refused.seconds < supported.seconds / 3


def test_of_a_large_plan_the_first_trials_tell_what_cannot_be_run(on_terminal: Show, study_file: Write) -> None:
    batches = list(range(1, 1500))
    path = study_file(framework=["tensorflow"], strategy=["sharded"], workers=[1], network=["mlp"], batch_size=batches)
    assert (
        "200 of the first 200 cannot be run: TensorFlow has no strategy 'sharded'"
        in on_terminal("run", path, "--dry-run").text
    )


def test_ctrl_c_ends_after_the_trial_and_the_same_command_goes_on(
    at_terminal: Begin, on_terminal: Show, study_file: Write, no_orphans: Callable[[], None]
) -> None:
    path = study_file(batch_size=list(range(1, 1001)))
    terminal = at_terminal("run", path, "--out", "out")
    terminal.until("2/2000")
    terminal.press(CTRL_C)
    screen = terminal.ended()
    assert screen.code == 130
    assert "ending after this trial; Ctrl-C again ends at once" in screen.text
    done, left = map(int, re.findall(r"(\d+) ok, 0 failed, (\d+) left of 2000 trials in out", screen.text)[0])
    assert 2 <= done < 2000 and done + left == 2000
    assert f"next: steplab run {path} --out out (goes on where it stopped)" in screen.text
    assert f"{done} ok, 0 failed, {left} left of 2000 trials" in on_terminal("status", "out").text
    advice = on_terminal("analyze", "out").lines[-2]
    assert advice == f"next: steplab run out/study.toml --out out  ({left} trials are left: more is known then)"
    again = on_terminal("run", path, "--out", "out", "--limit", "1")
    assert f"{done + 1} ok, 0 failed, {left - 1} left of 2000 trials" in again.text
    no_orphans()


def test_a_second_ctrl_c_ends_at_once_in_one_line(
    at_terminal: Begin, study_file: Write, no_orphans: Callable[[], None]
) -> None:
    study = study_file(batch_size=[8, 16], fault=["hang"], measure="timeout_s = 3000")
    terminal = at_terminal("run", study, "--out", "out")
    terminal.until("batch_size")  # a trial runs: before that, the first Ctrl-C would end it all
    terminal.press(CTRL_C)
    terminal.until("Ctrl-C again ends at once")
    terminal.press(CTRL_C)
    screen = terminal.ended()
    # The terminal's own echo of the key stands before it, unless a bar was drawn anew in between.
    assert (screen.code, screen.lines[-2].removeprefix("^C")) == (130, "steplab: interrupted"), screen.lines
    assert "goes on where it stopped" in screen.text and "Traceback" not in screen.text
    no_orphans()


def test_failures_lead_to_status_and_status_to_what_failed(on_terminal: Show, study_file: Write) -> None:
    path = study_file(batch_size=[8, 16], fault=["none", "raise"], measure="retries = 0")
    ran = on_terminal("run", path, "--out", "out")
    assert (ran.code, ran.lines[-2]) == (3, "next: steplab status out")
    status = on_terminal("status", "out")
    assert (status.code, status.widest <= 80) == (0, True)
    assert "4 ok, 4 failed, 0 left of 8 trials" in status.text
    rows = [line for line in status.lines if " failed " in line and "fault=raise" in line]
    assert len(rows) == 4 and all(re.match(r" [0-9a-f]{8}  ", row) for row in rows)
    assert "optimizer" not in status.text  # it is the same in all
    assert status.lines[-2] == "next: steplab run out/study.toml --out out --retry-failed"
    path.write_text(path.read_text().replace("iterations = 8", "iterations = 9"))
    changed = on_terminal("run", path, "--out", "out")
    assert (changed.code, changed.widest <= 80) == (1, True)
    assert "[measure] iterations was 8 and is 9; give another folder with --out" in changed.text
    assert changed.text.count("iterations") == 1  # said once


def test_a_mistyped_word_is_answered_with_the_nearest(on_terminal: Show, study_file: Write) -> None:
    command = on_terminal("analyse", "out")
    assert (command.code, "Did you mean 'analyze'?" in command.text) == (2, True)
    option = on_terminal("run", "study.toml", "--dryrun")
    assert (option.code, "--dry-run" in option.text) == (2, True)
    level = on_terminal("run", study_file(network=["lenet"]).name, "--dry-run")
    assert (level.code, level.widest <= 80) == (1, True)
    assert "did you mean 'lenet5'" in level.text and level.text.startswith("steplab: ")


def test_a_shell_completes_values(at_terminal: Begin) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = at_terminal(command=("bash", "--norc", "--noprofile", "-i"), env={"PS1": "$ ", "PATH": path}, columns=200)
    shell.press('eval "$(steplab --show-completion bash)"; echo rea""dy\n')
    drawn = shell.until("ready\r\n")
    for typed, completed in (
        ("steplab inspect resnet5", "resnet50 "),
        ("steplab env create chai", "chainer "),
        ("steplab analyze runs --section scaling,ef", "scaling,effects"),
    ):
        shell.press(f"{typed}\t")
        drawn = shell.until(completed, drawn)
        shell.press('\x15echo ne""xt\n')  # the line is thrown away
        drawn = shell.until("next\r\n", drawn)
    shell.press("exit\n")
    shell.ended()


def test_the_ranks_of_a_profile_are_taken_file_by_file(tmp_path: Path, on_terminal: Show) -> None:
    for rank in (0, 1):
        events = [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": 100 * n, "dur": 90 + rank,
             "pid": rank, "tid": 1}
            for n in (1, 2, 3)
        ]  # fmt: skip
        document = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    screen = on_terminal("import", "kineto", "rank0.json", "rank1.json", "--out", "out")
    assert (screen.code, screen.widest <= 80) == (0, True)
    assert len(steplab.open(tmp_path / "out").iterations["rank"].unique()) == 2


def test_factors_that_are_confounded_together_have_no_effect_on_the_screen(tmp_path: Path, on_terminal: Show) -> None:
    rows = [
        f"{framework},{batch},{threads},{replicate},{time * (1 + 0.01 * replicate)}"
        for framework, batch, threads, time in TOGETHER for replicate in range(3)
    ]  # fmt: skip
    (tmp_path / "times.csv").write_text("\n".join(["framework,batch_size,threads,replicate,t_iter_ms", *rows]) + "\n")
    assert on_terminal("import", "csv", "times.csv", "--out", "out").code == 0
    answer = on_terminal("analyze", "out")
    assert (answer.code, answer.widest <= 80) == (0, True)
    assert "framework, batch_size and threads were not varied independently (none of them changes alone" in answer.text
    assert "strongest single effect" not in answer.text and "No factor" not in answer.text
    effects = on_terminal("analyze", "out", "--section", "effects").text
    assert "What framework, batch_size and threads do cannot be told apart" in effects
    assert " real" not in effects


def test_every_section_shows_something_or_says_why_not(on_terminal: Show, study_file: Write) -> None:
    path = study_file(batch_size=[8, 16], workers=[1, 2], noise=[0.02], measure="phases = true")
    assert on_terminal("run", path, "--out", "out").code == 0
    names = "answer,accuracy,latency,configurations,phases,layers,scaling,frameworks,effects,imbalance,noise"
    screen = on_terminal("analyze", "out", "--section", names)
    assert (screen.code, screen.widest <= 80) == (0, True)
    for name in ("accuracy", "latency", "frameworks"):
        assert re.search(rf"{name}: nothing to show: [^.]+\.", screen.text), name
    for heading in ("The highest throughput", "configurations (S", "where a step's time goes", "layers with",
                    "speed-up:", "main effects", "noise: "):  # fmt: skip
        assert heading in screen.text
    wrong = on_terminal("analyze", "out", "--section", "scalling")
    assert (wrong.code, "did you mean 'scaling'" in wrong.text.lower()) == (1, True)


def test_a_checkup_has_units_and_fits(on_terminal: Show) -> None:
    screen = on_terminal("doctor")
    assert (screen.code, screen.widest <= 80) == (0, True)
    assert re.search(r"memory +[\d.]+ [GT]iB", screen.text) and re.search(r"clock +([\d.]+ [GM]Hz|-)", screen.text)
    assert re.search(r"torch +ready +\d", screen.text)
    assert re.search(r"noise: \w+", screen.text) and not re.search(r"\d{4,} ?%", screen.text)
    assert screen.lines[-2] == "next: steplab init my-study"


@pytest.fixture
def own_onnx(study_file: Write) -> Path:
    """A study that names an ONNX file."""
    return study_file(network=["onnx:net.onnx"])


def test_a_study_of_an_onnx_file_is_told_what_can_be_done_with_it(own_onnx: Path, on_terminal: Show) -> None:
    screen: Any = on_terminal("run", own_onnx.name, "--dry-run")
    assert (screen.code, screen.widest <= 80) == (1, True)
    told = "is a file that only onnxruntime runs, in studies of kind 'infer'; `steplab inspect onnx:net.onnx` counts it"
    assert told in screen.text


def test_forty_configurations_of_four_factors_are_answered_on_one_screen(
    tmp_path: Path, on_terminal: Show, study_file: Write
) -> None:
    levels = {"batch_size": [8, 16, 32, 64, 128], "workers": [1, 2], "strategy": ["sync", "accumulate:2"]}
    steplab.run(study_file(noise=[0.02], latency_s=[0.001, 0.01], **levels), tmp_path / "out")
    screen = on_terminal("analyze", "out")
    assert (screen.code, screen.widest <= 80) == (0, True)
    assert len(screen.lines) <= 60
    assert screen.lines[0].startswith("The highest throughput is ")
    assert re.search(r"… and \d+ more \(--all shows them\)", screen.text)


def test_a_finished_plan_leads_to_its_answer(tmp_path: Path, on_terminal: Show, study_file: Write) -> None:
    path = study_file(batch_size=[8, 16])
    steplab.run(path, tmp_path / "out")
    screen = on_terminal("run", path, "--out", "out", "--dry-run")
    assert "0 left; every trial has its record" in screen.text
    assert screen.lines[-2] == "next: steplab analyze out"


def test_a_prediction_has_units_and_one_word_on_its_range(tmp_path: Path, on_terminal: Show) -> None:
    rows = [f"{b},{n},{1e-3 * b + 1e-3 * n}" for b in (8, 16, 32) for n in (1, 2) for _ in range(3)]
    (tmp_path / "times.csv").write_text("\n".join(["batch_size,workers,t_iter", *rows]) + "\n")
    fitted = on_terminal("fit", "times.csv", "--target", "t_iter", "--model", "linear", "--out", "model.json")
    assert (fitted.code, fitted.widest <= 80) == (0, True)
    assert re.search(r"MAE [\d.]+ [mµn]?s, MAPE", fitted.text)
    inside = on_terminal("predict", "model.json", "--at", "batch_size=16,workers=2")
    assert re.search(r"workers=2 +18 ms +[\d.]+ ms +[\d.]+ ms +inside", inside.text)
    outside = on_terminal("predict", "model.json", "--at", "batch_size=16,workers=4")
    assert (outside.code, outside.widest <= 80) == (0, True)
    assert "a model is a guess" in outside.text and "no interval can be given" in outside.text
    assert "learned by extrapolating" not in outside.text  # of an interval that there is not

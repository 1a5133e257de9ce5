"""What a person sees on a terminal of 80 columns: frameworks, cores, causes, trainings, latencies, a cluster."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steplab
from steplab.core.record import parse_record
from steplab.core.trial import trial_id
from steplab.store import records
from steplab.store.paths import StudyFolder

STUDY = """
[study]
name = "looked-at"
kind = "{kind}"
[factors]
framework = ["synthetic"]
{factors}
[design]
replicates = 3
{more}
"""
CLUSTER = "gpus,nodes,seconds\n1,1,100\n2,1,52\n4,1,28\n8,1,15.5\n16,2,10\n32,4,6.25\n"
# How long each framework takes; as if they had run on a machine with two cores.
SPEEDS = {"torch": 1.0, "jax": 1.4, "mxnet": 1.4}
Show = Callable[..., Any]


def _run(place: Path, kind: str, factors: str, more: str) -> Path:
    path = place / "study.toml"
    path.write_text(STUDY.format(kind=kind, factors=factors, more=more))
    steplab.run(path, place / "study")
    return place / "study"


def _slowed(value: Any, by: float, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _slowed(part, by, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_slowed(part, by, key) for part in value]
    return value * by if key.startswith("t_") and isinstance(value, float) else value


def _in_frameworks(folder: Path, speeds: dict[str, float]) -> None:
    """Replace the records by those of frameworks that take so many times as long, on a machine with two cores."""
    place, rng = StudyFolder(folder), np.random.default_rng(7)
    for name in sorted(records.done(place)):
        old = json.loads(place.record(name).read_bytes())
        place.record(name).unlink()
        for framework, speed in speeds.items():
            slower = speed * float(np.exp(0.02 * rng.standard_normal()))
            new = {**old, **{part: {**old[part], "framework": framework} for part in ("config", "resolved")}}
            new |= {"ranks": _slowed(old["ranks"], slower), "machine": {**old["machine"], "cpus": 2, "cores": 2}}
            new["hosts"] = [{**host, "machine": new["machine"]} for host in old["hosts"]]
            new["trial"] = trial_id(new["config"], new["replicate"])
            records.write_record(place, parse_record(json.dumps(new).encode(), "a test's record"))


@pytest.fixture(scope="module")
def frameworks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three frameworks, two of which cannot be told apart; workers and threads on two cores."""
    factors = "batch_size = [8, 64]\nworkers = [1, 2]\nthreads = [1, 2]\nlatency_s = [0.002]\nnoise = [0.02]"
    folder = _run(tmp_path_factory.mktemp("frameworks"), "step", factors, "[measure]\niterations = 8\nphases = true")
    _in_frameworks(folder, SPEEDS)
    return folder


def _text(screen: Any) -> str:
    """The words of a screen, all of whose lines fit it but the command to copy."""
    lines = [line for line in screen.lines if not line.startswith("next:")]
    assert screen.code == 0, lines
    assert max(map(len, lines)) <= 80
    return " ".join(" ".join(lines).split())


def test_frameworks_are_ranked_first_and_all_fits_a_screen(frameworks: Path, on_terminal: Show) -> None:
    screen = on_terminal("analyze", frameworks)
    text = _text(screen)
    assert len(screen.lines) <= 60
    assert re.match(r"By throughput over 8 configurations: torch before (jax|mxnet) \(0\.7\d times as much\)", text)
    assert re.search("(jax and mxnet|mxnet and jax) cannot be told apart", text)
    # One voice: what is real in the pairs is said above, and nothing else.
    pairs = _text(on_terminal("analyze", frameworks, "--section", "frameworks"))
    overall = re.findall(r"(\w+ / \w+) throughput all ([\d.]+) [\d.]+–[\d.]+ (real)?", pairs)
    assert {pair: bool(real) for pair, _, real in overall} == {
        "jax / mxnet": False, "jax / torch": True, "mxnet / torch": True,
    }  # fmt: skip


def test_several_workers_are_compared_with_one_on_all_cores(frameworks: Path, on_terminal: Show) -> None:
    text = _text(on_terminal("analyze", frameworks, "--section", "answer"))
    assert re.search(
        r"On the same 2 cores.*2 workers do [\d.]+ times \([\d.]+ to [\d.]+\) the work of one worker", text
    )


def test_units_are_those_that_people_read(frameworks: Path, on_terminal: Show) -> None:
    text = _text(on_terminal("analyze", frameworks, "--all"))
    assert " ms" in text and "samples/s" in text
    assert not re.search(r"\b0\.0\d+ s\b|samples/s 0\b|\+\d{3,} ?%|\d{8}", text)


def test_causes_have_intervals_and_the_times_of_the_table(frameworks: Path, on_terminal: Show) -> None:
    text = _text(on_terminal("analyze", frameworks, "--why"))
    first = re.search(r"workers 2, threads \d: With 2 workers a step takes ([\d.]+ ms), ([\d.]+ ms) \(", text)
    assert first is not None, text
    step, loss = first.groups()
    table = _text(on_terminal("analyze", frameworks, "--section", "configurations", "--all"))
    assert step in table
    assert f"lost in all {loss}" in text
    assert re.search(r"[\d.]+ × the throughput \((measured|predicted), [\d.]+ to [\d.]+\)", text)


def test_a_training_says_first_who_reached_the_target(tmp_path: Path, on_terminal: Show) -> None:
    more = "[train]\nepochs = 4\ntarget_accuracy = 0.8\n[data]\nsamples = 256"
    folder = _run(tmp_path, "train", "learn_epochs = [1.0, 50.0]\nnoise = [0.02]", more)
    text = _text(on_terminal("analyze", folder))
    assert text.startswith("The target accuracy of 80 % was reached soonest with learn_epochs 1.0: after 2 epochs and")
    assert text.index("Never reached it in 4 epochs: learn_epochs 50.0") < text.index("the highest throughput")
    assert "does more samples/s" not in text  # both cost the same
    table = _text(on_terminal("analyze", folder, "--section", "accuracy"))
    assert "target 80 %" in table and re.search(r"1\.0 +3 of 3 +2 +[\d.]+ m?s +[\d.]+–[\d.]+ m?s +\d\d\.\d %", table)


def test_an_inference_says_its_latencies(tmp_path: Path, on_terminal: Show) -> None:
    folder = _run(tmp_path, "infer", "batch_size = [1, 8]\nnoise = [0.02]", "[measure]\niterations = 120")
    text = _text(on_terminal("analyze", folder, "--section", "answer,latency"))
    assert text.startswith("The lowest latency of a batch is that of batch_size 1: p50")
    assert all(name in text for name in ("p50", "p95", "p99", "samples/s"))


def test_a_cluster_has_one_series_and_a_network_of_nobody_no_roofline(tmp_path: Path, on_terminal: Show) -> None:
    (tmp_path / "cluster.csv").write_text(CLUSTER)
    steplab.import_csv(tmp_path / "cluster.csv", tmp_path / "study")
    text = _text(on_terminal("analyze", tmp_path / "study"))
    assert "50% at worst (workers 32)" in text and "nodes follows from workers" in text
    assert "samples/s with" not in text
    refused = on_terminal("roofline", tmp_path / "study", "--machine", "a100")
    assert refused.code == 1
    assert "nothing can be counted" in " ".join(refused.lines)


def test_a_slower_study_fails_where_that_is_beyond_doubt(frameworks: Path, tmp_path: Path, on_terminal: Show) -> None:
    after = tmp_path / "after"
    shutil.copytree(frameworks, after, ignore=shutil.ignore_patterns("cache"))
    place = StudyFolder(after)
    for name in sorted(records.done(place)):
        old = json.loads(place.record(name).read_bytes())
        place.record(name).unlink()
        records.write_record(place, parse_record(json.dumps(_slowed(old, 1.3)).encode(), "a test's record"))
    screen = on_terminal("diff", frameworks, after, "--fail-above", "5%")
    lines = [line for line in screen.lines if not line.startswith("next:")]
    assert (screen.code, max(map(len, lines)) <= 80) == (3, True)
    assert any("slower" in line and "1.3" in line for line in lines)

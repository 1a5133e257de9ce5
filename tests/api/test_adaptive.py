"""An adaptive study from its file to its end: choices in records, killed and continued, its files lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import steplab
from steplab.api.measuring.adaptive import AdaptiveStudy
from steplab.api.measuring.noise_memory import NOISE, Scatter
from steplab.api.measuring.powers import pooled, scatter
from steplab.api.measuring.shape_memory import Shape
from steplab.design.plan import plan
from steplab.store.choices import read_batches
from steplab.store.paths import StudyFolder
from steplab.store.records import done
from steplab.study.file import parse_study

TEXT = """
[study]
name = "adapt"
[factors]
framework = ["synthetic"]
batch_size = { low = 4, high = 256, scale = "log" }
workers = [1, 2]
noise = [0.03]
[design]
type = "adaptive"
aim = "predict"
trials = 11
tolerance = 0.0001
[measure]
iterations = 5
warmup = 1
phases = false
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "adapt.toml"
    path.write_text(TEXT)
    return path


def records(folder: Path) -> dict[str, dict[str, object]]:
    return {path.stem: json.loads(path.read_text()) for path in (folder / "records").glob("*.json")}


def test_every_record_says_why_it_was_chosen(toml: Path, tmp_path: Path) -> None:
    results = steplab.run(toml, tmp_path / "out")
    chosen = [record["choice"] for record in records(tmp_path / "out").values()]
    assert len(chosen) == 11 and all(choice["why"] for choice in chosen)
    assert {choice["batch"] for choice in chosen} == {0, 1, 2}
    counts = results.status().counts
    assert (counts.trials, counts.ok, counts.left) == (11, 11, 0)
    assert read_batches(StudyFolder(tmp_path / "out"))[-1].why == "ended: the budget of 11 trials is used up"


def test_a_study_that_stopped_goes_on_with_its_batch(toml: Path, tmp_path: Path) -> None:
    steplab.run(toml, tmp_path / "out", 7)
    folder = StudyFolder(tmp_path / "out")
    begun = read_batches(folder)[-1]
    adaptive = AdaptiveStudy(steplab.read_study(toml), plan(steplab.read_study(toml)), folder)
    left = {adaptive._id(choice.row, choice.replicate) for choice in adaptive.following().choices}
    assert left == set(begun.trials) - set(records(folder.root)) and left
    steplab.run(toml, folder.root)
    assert left <= set(records(folder.root)) and len(records(folder.root)) == 11


def test_lost_files_of_choices_are_chosen_again_from_the_records(toml: Path, tmp_path: Path) -> None:
    steplab.run(toml, tmp_path / "out", 7)
    folder = StudyFolder(tmp_path / "out")
    study = steplab.read_study(toml)
    before = AdaptiveStudy(study, plan(study), folder).following()
    shutil.rmtree(folder.choices)
    again = AdaptiveStudy(study, plan(study), folder).following()
    assert [(c.row, c.replicate) for c in sorted(again.choices, key=str)] == [
        (c.row, c.replicate) for c in sorted(before.choices, key=str)
    ]


def test_a_larger_budget_goes_on(toml: Path, tmp_path: Path) -> None:
    steplab.run(toml, tmp_path / "out")
    toml.write_text(TEXT.replace("trials = 11", "trials = 13"))
    counts = steplab.run(toml, tmp_path / "out").status().counts
    assert (counts.trials, counts.ok, counts.left) == (13, 13, 0)


def test_the_plan_shows_what_would_be_measured_now(toml: Path, tmp_path: Path) -> None:
    planned = steplab.plan(toml, tmp_path / "out")
    assert planned.document()["why"].startswith("start block") and len(planned.document()["plan"]) == 4
    assert planned.counts.left == 11 and planned.seconds > 0


def test_a_damaged_batch_is_one_sentence(toml: Path, tmp_path: Path) -> None:
    steplab.run(toml, tmp_path / "out", 3)
    (tmp_path / "out" / "choices" / "00000.json").write_text("{")
    with pytest.raises(steplab.RecordError, match="not a batch of an adaptive design"):
        steplab.run(toml, tmp_path / "out")


@pytest.mark.parametrize(("old", "new", "message"), [
    ("trials = 11", "trials = 0", "a budget of nothing measures nothing"),
    ("trials = 11", "minutes = 0.0", "a budget of nothing measures nothing"),
    ("trials = 11\n", "", "needs a budget"),
    ('"adaptive"', '"latin"\nn = 5', "aim goes with type 'adaptive'"),
    ('"predict"', '"guess"', "should be 'predict', 'best'"),
    ("tolerance = 0.0001", "difference = 0.1", "goes with aim = 'compare'"),
    ("trials = 11", "trials = 11\nn = 4", "goes with type 'random' or 'latin'"),
])  # fmt: skip
def test_a_wrong_design_is_one_sentence(old: str, new: str, message: str) -> None:
    with pytest.raises(steplab.StudyError, match=message):
        parse_study(TEXT.replace(old, new), Path("adapt.toml"))


def test_too_many_configurations_cannot_be_compared() -> None:
    text = TEXT.replace('"predict"', '"compare"').replace(
        '{ low = 4, high = 256, scale = "log" }', str(list(range(1, 60)))
    )
    with pytest.raises(steplab.StudyError, match="118 configurations to compare"):
        plan(parse_study(text, Path("adapt.toml")))


def test_scaling_without_workers_that_vary_is_one_sentence(toml: Path, tmp_path: Path) -> None:
    toml.write_text(TEXT.replace('"predict"', '"scaling"').replace("workers = [1, 2]", "workers = [1]"))
    with pytest.raises(steplab.StudyError, match="aim 'scaling' needs workers that vary"):
        steplab.run(toml, tmp_path / "out")


def test_two_configurations_are_compared_until_they_are_told_apart(tmp_path: Path) -> None:
    text = TEXT.replace('"predict"', '"compare"').replace('{ low = 4, high = 256, scale = "log" }', "[8, 64]")
    path = tmp_path / "compare.toml"
    path.write_text(text.replace("workers = [1, 2]", "workers = [1]").replace("trials = 11", "trials = 40"))
    folder = StudyFolder(tmp_path / "out")
    steplab.run(path, folder.root)
    assert len(records(folder.root)) == 8  # four of each are enough for a difference that large
    assert "1 of 1 pairs are told apart" in read_batches(folder)[-1].why
    assert steplab.open(folder.root).status().counts.left == 0


PLAIN = TEXT.replace('type = "adaptive"\naim = "predict"\ntrials = 11\ntolerance = 0.0001', "replicates = 3").replace(
    '{ low = 4, high = 256, scale = "log" }', "[8, 64]"
)


def test_a_pilot_tells_what_a_design_will_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "home"))
    path = tmp_path / "plain.toml"
    path.write_text(PLAIN)
    before = steplab.plan(path, tmp_path / "out")
    assert "unknown" in before.power.sentence and "sentence" in before.document()["power"]
    ended = steplab.pilot(path, tmp_path / "out")
    assert ended.counts.ok == 8 and not (tmp_path / "out").exists()
    power = steplab.plan(path, tmp_path / "out").power
    # Medians of five iterations with 3 % of noise each differ by a little less than half of that.
    assert power.basis == "its pilot" and 0.003 < power.noise < 0.05
    assert power.effects["workers"] < power.pair < 0.5


def test_the_noise_of_this_machine_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "home"))
    NOISE.add({Shape("synthetic", "lenet5", 1): Scatter(10.0, 0.4)})
    NOISE.add({Shape("synthetic", "lenet5", 1): Scatter(10.0, 0.4)})
    assert NOISE.read() == {Shape("synthetic", "lenet5", 1): Scatter(20.0, 0.8)}
    path = tmp_path / "plain.toml"
    path.write_text(PLAIN)
    power = steplab.plan(path, tmp_path / "out").power
    assert power.noise == pytest.approx(0.2) and power.basis == "earlier studies on this machine"
    (tmp_path / "home" / "noise.json").write_text("[[1, 2]]")
    assert NOISE.read() == {}


def test_trials_of_an_earlier_run_count_once_for_the_noise_of_this_machine(tmp_path: Path) -> None:
    path, out, learned = tmp_path / "plain.toml", tmp_path / "out", Scatter()
    path.write_text(PLAIN)
    earlier: set[str] = set()
    for limit in (3, 2, None):
        steplab.run(path, out, limit=limit)
        for added in scatter(out, earlier).values():
            learned = learned.plus(added)
        earlier = done(StudyFolder(out))
    whole = pooled(scatter(out).values())
    assert learned.freedom == whole.freedom > 0 and learned.squares == pytest.approx(whole.squares)
    assert scatter(out, earlier) == {}

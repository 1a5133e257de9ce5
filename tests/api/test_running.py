"""Running studies from Python: no print, no signal, finished trials stay."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import steplab
from steplab.core.record import Record
from steplab.core.trial import Trial


class Watching(steplab.RunObserver):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_begin(self, trials: int, expected_s: float) -> None:
        self.heard.append(f"begin {trials}")

    def on_start(self, trial: Trial) -> None:
        self.heard.append("start")

    def on_record(self, record: Record) -> None:
        self.heard.append(record.status)

    def on_note(self, text: str) -> None:
        self.heard.append(text)


def test_a_run_prints_nothing_and_gives_the_tables(
    study_toml: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study = steplab.run(study_toml, tmp_path / "out", limit=2)
    assert list(study.trials["status"]) == ["ok", "ok"]
    assert capfd.readouterr() == ("", "")


def test_a_run_goes_on_where_it_stopped(study_toml: Path, tmp_path: Path) -> None:
    steplab.run(study_toml, tmp_path / "out", limit=1)
    study = steplab.run(steplab.read_study(study_toml), tmp_path / "out", limit=2)
    assert (len(study.trials), study.status().counts.left) == (3, 13)


def test_an_observer_hears_of_every_trial(study_toml: Path, tmp_path: Path) -> None:
    watching = Watching()
    steplab.run(study_toml, tmp_path / "out", limit=2, observer=watching)
    assert watching.heard == ["begin 2", "start", "ok", "start", "ok"]


def test_a_run_takes_no_signal(study_toml: Path, tmp_path: Path) -> None:
    handlers = []

    class Looking(steplab.RunObserver):
        def on_start(self, trial: Trial) -> None:
            handlers.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    steplab.run(study_toml, tmp_path / "out", limit=1, observer=Looking())
    assert handlers == [before]


def test_an_interrupt_is_passed_on_and_finished_trials_stay(
    study_toml: Path, tmp_path: Path, no_orphans: Callable[[], None]
) -> None:
    class Impatient(steplab.RunObserver):
        def on_record(self, record: Record) -> None:
            raise KeyboardInterrupt  # as Ctrl-C does in a notebook

    with pytest.raises(KeyboardInterrupt):
        steplab.run(study_toml, tmp_path / "out", observer=Impatient())
    assert list(steplab.open(tmp_path / "out").trials["status"]) == ["ok"]
    no_orphans()


def test_a_wish_to_stop_ends_after_the_trial_that_runs(study_toml: Path, tmp_path: Path) -> None:
    stop = steplab.Stop()

    class Asking(steplab.RunObserver):
        def on_start(self, trial: Trial) -> None:
            stop.asked = True

    assert len(steplab.run(study_toml, tmp_path / "out", observer=Asking(), stop=stop).trials) == 1


def test_what_nobody_watches_is_logged(folder: Path, study_toml: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "records" / "stranger.json").write_text("?")
    with caplog.at_level(logging.WARNING, "steplab"):
        steplab.run(study_toml, folder, limit=0)
    assert "stranger.json" in caplog.text


def test_a_plan_writes_nothing_and_knows_its_time(study_toml: Path, tmp_path: Path) -> None:
    planned = steplab.plan(study_toml, tmp_path / "out")
    assert (planned.counts.left, planned.varied, planned.basis[:7]) == (16, ["batch_size", "workers"], "a rough")
    assert planned.seconds > 0
    assert not (tmp_path / "out").exists()


def test_only_the_named_trials_run(study_toml: Path, tmp_path: Path) -> None:
    wanted = steplab.plan(study_toml).trials[3].id
    assert list(steplab.run(study_toml, tmp_path / "out", trials=[wanted]).trials["trial"]) == [wanted]


def test_failed_trials_run_again_if_asked(study_toml: Path, tmp_path: Path) -> None:
    study_toml.write_text(study_toml.read_text().replace("noise = 0.03", 'fault = "raise"') + "retries = 0\n")
    assert steplab.run(study_toml, tmp_path / "out", limit=1).status().counts.failed == 1
    study = steplab.run(study_toml, tmp_path / "out", limit=1, retry_failed=True)
    assert (len(study.trials), study.status().failures[0].status) == (1, "failed")


def test_a_starter_study_is_right(tmp_path: Path) -> None:
    path = steplab.init(tmp_path / "mine", framework="synthetic")
    assert steplab.read_study(path).about.name == "mine"

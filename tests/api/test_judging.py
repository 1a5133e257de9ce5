"""Models judged in several processes: who takes what, and what happens when one is lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from steplab.api.modelling import judging
from steplab.api.modelling.judging import Agenda, Judge, Task, judge_all
from steplab.core.background import BackgroundProcess, ProcessLost
from steplab.models import load_model_class
from steplab.models.judging.selection import HeldOut, random_folds

NAMES = ("linear", "quadratic", "ssgd")


def _result(seconds: float) -> HeldOut:
    return HeldOut(np.empty(0), np.empty(0), np.empty(0), seconds)


def test_every_model_is_tried_before_the_dearest_go_on() -> None:
    agenda = Agenda({Task(name, split) for name in ("cheap", "dear") for split in range(2)})
    first, second = agenda.take(), agenda.take()
    assert first is not None
    assert second is not None
    assert {first, second} == {Task("cheap", 0), Task("dear", 0)}
    agenda.finish(Task("cheap", 0), _result(1.0))
    agenda.finish(Task("dear", 0), _result(9.0))
    assert agenda.share == pytest.approx(10 / 20)
    assert [agenda.take(), agenda.take(), agenda.take()] == [Task("dear", 1), Task("cheap", 1), None]


@pytest.fixture
def judge() -> Judge:
    frame = pd.DataFrame({"workers": np.tile([1.0, 2, 4, 8], 6), "batch_size": np.repeat([8.0, 16, 32], 8)})
    y = (0.01 + 0.001 * frame["batch_size"] + 0.002 * np.log2(frame["workers"])).to_numpy()
    return Judge(frame, y, tuple(random_folds(len(y), None, 3)), None)


def _predictions(judge: Judge, processes: int) -> dict[str, list[float]]:
    candidates = [(name, load_model_class(name)((), (), ("workers", "batch_size"))) for name in NAMES]
    results = judge_all(candidates, judge, processes, lambda name, share: None)
    assert [name for name, _ in results] == list(NAMES)
    return {name: result.predicted.tolist() for name, result in results}


def test_the_work_of_a_lost_process_is_done_here(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, no_orphans: Callable[[], None]
) -> None:
    alone, asked = _predictions(judge, 1), []

    def lost(process: BackgroundProcess, work: object) -> None:
        asked.append(work)
        process._process.kill()
        raise ProcessLost

    monkeypatch.setattr(judging.BackgroundProcess, "do", lost)
    assert _predictions(judge, 3) == alone
    assert asked


def test_a_failure_here_ends_the_other_processes(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, no_orphans: Callable[[], None]
) -> None:
    def interrupt(self: Judge, model: object, split: int) -> HeldOut:
        raise KeyboardInterrupt

    monkeypatch.setattr(Judge, "judge", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _predictions(judge, 2)

"""Models judged on held-out rows, here and in further processes: whoever is free takes the next piece of work.

A piece of work is one model on one split. The first split of each model tells what it costs; of the others the dearest
come first, so that all processes end together. Results do not depend on who does what.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from steplab.core.background import BackgroundProcess, ProcessLost
from steplab.models.base import PerformanceModel
from steplab.models.judging.selection import HeldOut, held_out, joined

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Judge:
    """The rows that all models are judged on."""

    X: pd.DataFrame
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]
    groups: np.ndarray | None

    def judge(self, model: PerformanceModel, split: int) -> HeldOut:
        """A model's predictions of the rows that one split holds out."""
        return held_out(model, self.X, self.y, self.splits[split : split + 1], self.groups)


class Task(NamedTuple):
    """One model on one split."""

    model: str
    split: int


@dataclass
class Agenda:
    """What is to be done and what is done; several threads take from it."""

    tasks: set[Task]
    results: dict[Task, HeldOut] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.waiting = set(self.tasks)

    def take(self) -> Task | None:
        """The next task: models whose cost nobody knows yet, then the dearest ones; None where none waits."""
        with self.changed:
            costs = self._costs()
            if not self.waiting:
                return None
            # Without a cost, the first split of every model before the second of any.
            chosen = min(self.waiting, key=lambda task: (-costs.get(task.model, np.inf), task.split, task.model))
            self.waiting.remove(chosen)
            return chosen

    def finish(self, task: Task, result: HeldOut) -> None:
        """Keep a result."""
        with self.changed:
            self.results[task] = result
            self.changed.notify_all()

    def give_back(self, task: Task) -> None:
        """Let somebody else do it."""
        with self.changed:
            self.waiting.add(task)
            self.changed.notify_all()

    def wait(self) -> bool:
        """Wait for what others do; whether something is left to be taken."""
        with self.changed:
            while not self.waiting and len(self.results) < len(self.tasks):
                self.changed.wait()
            return bool(self.waiting)

    @property
    def share(self) -> float:
        """Which share of the work is done, by what models cost; a model that was not tried costs as the others do."""
        with self.changed:
            costs = self._costs()
            typical = float(np.mean(list(costs.values()))) if costs else 1.0
            whole = sum(costs.get(task.model, typical) for task in self.tasks)
            return sum(costs.get(task.model, typical) for task in self.results) / whole if whole else 0.0

    def _costs(self) -> Mapping[str, float]:
        """The longest fit of each model that has been judged."""
        costs: dict[str, float] = {}
        for task, result in self.results.items():
            costs[task.model] = max(costs.get(task.model, 0.0), result.fit_seconds)
        return costs


def judge_all(
    candidates: Sequence[tuple[str, PerformanceModel]], judge: Judge, processes: int, progress: Progress
) -> list[tuple[str, HeldOut]]:
    """Every model on the same rows, in this process and in further ones."""
    models = dict(candidates)
    splits = range(len(judge.splits))
    agenda = Agenda({Task(name, split) for name in models for split in splits})
    with contextlib.ExitStack() as stack:
        for _ in range(processes - 1):
            stack.enter_context(_helper(agenda, models, judge))
        _work(agenda, models, judge, progress)
    return [(name, joined([agenda.results[Task(name, split)] for split in splits])) for name, _ in candidates]


def _work(agenda: Agenda, models: Mapping[str, PerformanceModel], judge: Judge, progress: Progress) -> None:
    """Do what nobody else does, until all is done."""
    while agenda.wait():
        task = agenda.take()
        if task is not None:
            progress(task.model, agenda.share)
            agenda.finish(task, judge.judge(models[task.model], task.split))


@contextlib.contextmanager
def _helper(agenda: Agenda, models: Mapping[str, PerformanceModel], judge: Judge) -> Iterator[None]:
    """A further process, and a thread that hands work to it."""
    with contextlib.ExitStack() as stack:
        process = BackgroundProcess(__name__)
        thread = threading.Thread(target=_hand_out, args=(process, agenda, models, judge), daemon=True)
        stack.callback(thread.join)  # after the process has ended, so it waits for nothing
        stack.enter_context(process)
        thread.start()
        yield


def _hand_out(process: BackgroundProcess, agenda: Agenda, models: Mapping[str, PerformanceModel], judge: Judge) -> None:
    while (task := agenda.take()) is not None:
        try:
            agenda.finish(task, process.do(partial(judge.judge, models[task.model], task.split)))
        except ProcessLost:
            agenda.give_back(task)
            return

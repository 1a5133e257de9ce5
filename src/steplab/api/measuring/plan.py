"""The plan of a study before it runs: which trials, how many are left, about how long they take."""

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steplab.api import display
from steplab.api.measuring.budget import is_adaptive, planned_number
from steplab.api.measuring.estimate import MOST_EXACT, MOST_FINISHED, MOST_GUESSED, Expectation, trials_per_start
from steplab.api.measuring.status import Counts, counts
from steplab.core.errors import EnvironmentFault, InputError
from steplab.core.own_code import NO_CODE, CodeUse, OwnCode, is_file
from steplab.core.trial import Level
from steplab.core.units import seconds as shown
from steplab.design import plan as designs
from steplab.runner.campaign import check_folder
from steplab.runner.environments import registry
from steplab.runner.environments.own_code import examine
from steplab.runner.executors import LOCAL, expect_executor
from steplab.store import records
from steplab.store.brief import Brief
from steplab.store.overview import overview
from steplab.store.paths import StudyFolder
from steplab.study.file import read_study as read_file
from steplab.study.sections import Study

if TYPE_CHECKING:
    from steplab.api.measuring.adaptive import AdaptiveStudy
    from steplab.api.measuring.powers import Unknown
    from steplab.planning.adaptive.chooser import Batch
    from steplab.planning.power import Power

log = logging.getLogger("steplab")
SHOWN = 12  # trials in a notebook
MOST_LISTED = 100_000  # trials of a plan in its document
SHORTEST_ID = 4  # characters that still name a trial


@dataclass(frozen=True)
class StudyPlan:
    """A study, its trials in the order in which they run, and the folder for their records."""

    study: Study
    trials: designs.Plan
    folder: Path
    own_code: OwnCode = NO_CODE  # the study's own, examined
    selected: bool = False  # whether only some trials were asked for

    @property
    def note(self) -> str:
        """What a person should know about the plan; empty if nothing."""
        return self.trials.note

    @property
    def counts(self) -> Counts:
        """How many trials are done already, and how many are left."""
        number = planned_number(
            self.study, self.trials, StudyFolder(self.folder), len(self._finished), partial=self.selected
        )
        return counts(StudyFolder(self.folder), number, self._finished.values())

    @cached_property
    def following(self) -> Batch | None:
        """Of an adaptive design: the batch that it would measure now, and why."""
        if not is_adaptive(self.study) or self.selected:
            return None
        return self._adaptive.following()

    @property
    def shown(self) -> designs.Plan:
        """The trials to show: all of them, or those that an adaptive design would measure now."""
        return self.trials if self.following is None else self._adaptive.plan_of(self.following)

    @property
    def _adaptive(self) -> AdaptiveStudy:
        from steplab.api.measuring.adaptive import AdaptiveStudy  # brings pandas and SciPy

        return AdaptiveStudy(self.study, self.trials, StudyFolder(self.folder))

    @property
    def basis(self) -> str:
        """What the estimated time comes from."""
        return self._expectation.basis

    @property
    def seconds(self) -> float:
        """The estimated time of the trials that are left."""
        return self._expectation.left(self.trials, self._finished.keys(), self.counts.left)

    @property
    def missing_environments(self) -> list[str]:
        """A sentence for each framework of the plan whose environment is missing, and how to make it."""
        return missing_environments(self.trials)

    @cached_property
    def refused(self) -> dict[str, int]:
        """Of the trials that are left those that their framework cannot run: how many, by the reason."""
        reasons = (self.study.kind.unsupported(trial.resolved) for trial in self._examined)
        return dict(Counter(filter(None, reasons)))

    @property
    def examined(self) -> int:
        """How many of the trials that are left were asked whether their framework can run them: the first of many."""
        return len(self._examined)

    @cached_property
    def _examined(self) -> list[designs.PlannedTrial]:
        left = (trial for trial in self.shown if trial.id not in self._finished)
        return list(itertools.islice(left, MOST_EXACT if len(self.trials) <= MOST_EXACT else MOST_GUESSED))

    @cached_property
    def power(self) -> Power | Unknown:
        """Which differences the design will be able to see, from the noise of earlier trials; or that nobody knows."""
        from steplab.api.measuring.powers import power  # brings pandas and SciPy

        return power(self.study, self.trials, self.folder)

    @property
    def varied(self) -> list[str]:
        """The factors that take more than one level."""
        return [name for name, column in self.trials.configurations.columns.items() if np.ptp(column.codes)]

    @property
    def same(self) -> dict[str, Level]:
        """The factors that are the same in all trials."""
        return {name: level for name, level in self.trials[0].config.items() if name not in self.varied}

    @cached_property
    def _finished(self) -> Mapping[str, Brief]:
        briefs = overview(StudyFolder(self.folder)).briefs
        return {trial: briefs[trial] for trial in self.trials.among(briefs.keys())}

    @cached_property
    def _expectation(self) -> Expectation:
        learned = expectation(self.study, self.trials, StudyFolder(self.folder), self._finished.keys())
        learned.left(self.trials, self._finished.keys())  # looks at the plan's shapes
        return learned

    def document(self) -> dict[str, Any]:
        """What `steplab run --dry-run --json` prints."""
        listed = itertools.islice(self.shown, MOST_LISTED)
        rows = [{"trial": t.id, "replicate": t.replicate, "config": dict(t.config)} for t in listed]
        told = {"seconds": self.seconds, "basis": self.basis, "note": self.note}
        refused = [{"reason": reason, "trials": number} for reason, number in self.refused.items()]
        told |= {"refused": refused, "examined": self.examined}
        told |= {"missing_environments": self.missing_environments, "power": asdict(self.power)}
        batch = self.following
        chosen = {} if batch is None else {"batch": batch.number, "why": batch.why}
        return self.counts.document() | told | chosen | {"plan": rows}

    def __repr__(self) -> str:
        return f"<StudyPlan {self.study.about.name}: {len(self.trials)} trials into {self.folder}>"

    def _repr_html_(self) -> str:
        rows = [[t.id, t.replicate, *(t.config.get(name) for name in self.varied)] for t in self.shown[:SHOWN]]
        time = f"{self.counts.left} left; estimated time {shown(self.seconds)} (from {self.basis})"
        return display.block(
            display.title(self.study.about.name),
            display.sentence(f"{len(self.trials)} trials, {len(self.trials.configurations)} configurations; {time}"),
            display.table(("trial", "replicate", *self.varied), rows),
            display.rest(len(self.trials) - SHOWN),
        )


def read_study(path: Path | str) -> Study:
    """Read and check a study file; nothing is run.

    A mistake in it is a `StudyError` that names the line, the field, and what is allowed.
    """
    return read_file(Path(path))


def plan(
    study: Study | Path | str,
    out: Path | str | None = None,
    trials: Collection[str] = (),
    *,
    modules: Path | str | None = None,
    tell: Callable[[str], None] = log.warning,
    executor: str = LOCAL,
) -> StudyPlan:
    """Plan a study without running it. Nothing is written.

    A study's own code (`module:…`) and ONNX files (`onnx:…`) are part of its trials' identity. They are tried in the
    environment of the framework that runs them, so they run; that is said before.

    Args:
        study: A study file, or what `read_study` gave.
        out: The folder for the records, by default `runs/<study name>`.
        trials: The ids of the only trials to run, by default all.
        modules: The folder of the study's own code, by default that of the study file.
        tell: Hears of code that will run; by default it is logged.
        executor: Where the trials are to run; it must be one that there is.
    """
    expect_executor(executor)
    declared = study if isinstance(study, Study) else read_study(study)
    folder = Path(out) if out is not None else Path("runs") / declared.about.name
    check_folder(StudyFolder(folder), declared)
    planned = designs.plan(declared)
    own_code = _examined(declared, planned.code_uses(), modules, tell)
    whole = designs.plan(declared, own_code) if own_code.identities else planned
    return StudyPlan(declared, _selected(whole, trials), folder, own_code, selected=bool(trials))


def _examined(
    study: Study, uses: Sequence[CodeUse], modules: Path | str | None, tell: Callable[[str], None]
) -> OwnCode:
    """The study's own code, tried after a word on it."""
    if not uses:
        return NO_CODE
    folder = Path(os.path.abspath(modules or study.path.parent))  # noqa: PTH100 - without `..`, and links stay
    if not folder.is_dir():
        raise InputError("there is no such folder", where=f"modules {folder}")
    names = dict.fromkeys(name for use in uses for name in use.own)
    what = "networks" if all(map(is_file, names)) else "code"
    tell(f"{', '.join(names)}: the ranks run {what} from {folder}; it is tried first")
    return examine(uses, folder, type(study.kind), f"{study.path}, factors")


def _selected(trials: designs.Plan, ids: Collection[str]) -> designs.Plan:
    if not ids:
        return trials
    whole = [name for short in ids for name in _named(trials, short)]
    return trials.selected(whole)


def _named(trials: designs.Plan, short: str) -> list[str]:
    """The id of the only trial whose id begins so."""
    few = len(short) < SHORTEST_ID
    matches = [] if few else list(itertools.islice((name for name in trials.ids() if name.startswith(short)), 2))
    if len(matches) != 1:
        what = f"{short!r} begins the ids of several trials" if matches else f"the study has no trial {short!r}"
        raise InputError(what, hint="`steplab run STUDY.toml --dry-run` lists the ids")
    return matches


def expectation(study: Study, trials: designs.Plan, folder: StudyFolder, done: Collection[str]) -> Expectation:
    """How long trials of a study take, by those that are done."""
    learned = Expectation(study, trials_per_start(study, trials))
    if not done:
        return learned
    if len(done) <= MOST_FINISHED:  # the pauses between some of many would tell nothing
        learned.learn_from(records.read_heads(folder, sorted(done)))
    else:
        for head in records.read_heads(folder, sorted(done)[:MOST_FINISHED]):
            learned.learn(head.config, head.seconds)
    return learned


def missing_environments(trials: designs.Plan) -> list[str]:
    """A sentence for each environment that the trials need and that is not there."""
    rows = trials.configurations.distinct(("framework", "environment")).first
    needed = {(resolved.framework, resolved.environment) for resolved in map(trials.resolved, map(int, rows))}
    sentences = []
    for framework, name in sorted(needed):
        try:
            registry.find(framework, name)
        except EnvironmentFault as fault:
            sentences.append(str(fault))
    return sentences

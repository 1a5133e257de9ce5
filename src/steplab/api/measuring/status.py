"""How far a study is: what is done, failed, unsupported, doubtful and left, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from steplab.api import display
from steplab.api.measuring.budget import planned_number
from steplab.api.measuring.job_status import JobStatus, job_statuses
from steplab.core.trial import UNSUPPORTED, Config, Tally, is_failure, tally
from steplab.core.units import seconds as shown
from steplab.design.plan import plan
from steplab.runner.ranks import leftovers
from steplab.store.brief import Brief, judged
from steplab.store.overview import overview
from steplab.store.own_code_file import read_own_code
from steplab.store.paths import StudyFolder
from steplab.store.records import read_heads
from steplab.study.file import read_study
from steplab.study.sections import Study

SHOWN = 20  # reasons in a notebook


@dataclass(frozen=True)
class Counts:
    """How many trials a study has, and how many of them are done, failed, unsupported and left."""

    folder: Path
    trials: int
    ok: int
    failed: int
    unsupported: int
    left: int

    def __str__(self) -> str:
        return f"{Tally(self.ok, self.failed, self.unsupported)}, {self.left} left of {self.trials} trials"

    def document(self) -> dict[str, Any]:
        """The counts as plain data."""
        return asdict(self) | {"folder": str(self.folder)}


@dataclass(frozen=True)
class UnmeasuredTrial:
    """A trial that failed or is unsupported, and why."""

    trial: str
    status: str
    reason: str
    config: Config


@dataclass(frozen=True)
class DoubtfulTrial:
    """A trial whose times are to be doubted, and why."""

    trial: str
    verdict: str
    doubts: str
    config: Config


@dataclass(frozen=True)
class StudyStatus:
    """How far a study is: the counts, what went wrong, and what is doubtful."""

    counts: Counts
    former: int  # trials of levels that the study no longer has; they stay in the tables
    varied: tuple[str, ...]  # the factors that take more than one level in the study
    seconds: float  # of measuring
    doubtful: int
    bad: int  # of the doubtful ones
    unjudged: int  # trials whose times were not looked at, because there are many
    failures: tuple[UnmeasuredTrial, ...]
    refusals: tuple[UnmeasuredTrial, ...]
    doubts: tuple[DoubtfulTrial, ...]
    unreadable: tuple[str, ...]
    jobs: tuple[JobStatus, ...] = ()  # on a cluster

    def __str__(self) -> str:
        text = f"{self.counts}; {shown(self.seconds)} of measuring"
        kept = f"{self.former} more are of levels that the study no longer has; they are analysed with the others"
        return f"{text}\n{kept}" if self.former else text

    def document(self) -> dict[str, Any]:
        """What `steplab status --json` prints."""
        numbers = {"seconds": self.seconds, "doubtful": self.doubtful, "bad": self.bad, "unjudged": self.unjudged}
        numbers |= {"former": self.former}
        unmeasured = {"failures": _plain(self.failures), "refusals": _plain(self.refusals)}
        rest = {"doubts": _plain(self.doubts), "unreadable": list(self.unreadable), "jobs": _plain(self.jobs)}
        return self.counts.document() | numbers | unmeasured | rest

    def _repr_html_(self) -> str:
        unmeasured = [(row.status, row.reason, row.trial) for row in (*self.failures, *self.refusals)[:SHOWN]]
        doubts = [(row.verdict, row.doubts, row.trial) for row in self.doubts[:SHOWN]]
        return display.block(
            display.sentence(str(self)),
            display.table(("status", "reason", "trial"), unmeasured, left=3),
            display.table(("verdict", "doubts", "trial"), doubts, left=3),
        )


def _plain(trials: Sequence[UnmeasuredTrial | DoubtfulTrial | JobStatus]) -> list[dict[str, Any]]:
    return [asdict(trial) for trial in trials]


def own_trials(place: StudyFolder, study: Study, done: Set[str]) -> tuple[int, Set[str]]:
    """How many trials a study has, and which of the finished ones are its own; an imported one has no others.

    Code of the study's own is that of the last run: nothing is run to know it.
    """
    if study.imported:
        return len(done), done
    trials = plan(study, read_own_code(place))
    own = trials.among(done)
    return planned_number(study, trials, place, len(own)), own


def counts(folder: StudyFolder, trials: int, done: Iterable[Brief]) -> Counts:
    """How many of a number of trials are done, failed, unsupported, left."""
    ended = tally(brief.status for brief in done)
    return Counts(folder.root, trials, **asdict(ended), left=trials - ended.ended)


def status(folder: Path | str, most: int | None = None) -> StudyStatus:
    """Count the trials of the study in a folder and name what went wrong: of each kind at most so many trials."""
    leftovers.sweep()
    place = StudyFolder(Path(folder))
    place.must_exist()
    study = read_study(place.study, place.read)
    seen = overview(place, judged)
    briefs = seen.briefs
    trials, own = own_trials(place, study, briefs.keys())
    # A trial whose level was taken out of the study file stays in the tables, and so it is counted here.
    former = len(briefs) - len(own)
    doubted = sorted(trial for trial, brief in briefs.items() if brief.doubts)
    failed = sorted(trial for trial, brief in briefs.items() if is_failure(brief.status))
    refused = sorted(trial for trial, brief in briefs.items() if brief.status == UNSUPPORTED)
    return StudyStatus(
        counts=counts(place, trials, [briefs[trial] for trial in own]),
        former=former,
        varied=_varied(study),
        seconds=round(sum(brief.seconds for brief in briefs.values()), 3),
        doubtful=len(doubted),
        bad=sum(briefs[trial].verdict == "bad" for trial in doubted),
        unjudged=seen.unjudged,
        failures=_unmeasured(place, failed, most),
        refusals=_unmeasured(place, refused, most),
        doubts=_doubtful(place, doubted, briefs, most),
        unreadable=seen.problems,
        jobs=job_statuses(place),
    )


def _varied(study: Study) -> tuple[str, ...]:
    return tuple(name for name, levels in study.factors.items() if not isinstance(levels, tuple) or len(levels) > 1)


def _unmeasured(place: StudyFolder, trials: Sequence[str], most: int | None) -> tuple[UnmeasuredTrial, ...]:
    heads = read_heads(place, islice(trials, most))
    return tuple(UnmeasuredTrial(head.trial, head.status, head.reason, head.config) for head in heads)


def _doubtful(
    place: StudyFolder, trials: Sequence[str], briefs: Mapping[str, Brief], most: int | None
) -> tuple[DoubtfulTrial, ...]:
    heads = read_heads(place, islice(trials, most))
    return tuple(
        DoubtfulTrial(head.trial, str(briefs[head.trial].verdict), briefs[head.trial].doubts, head.config)
        for head in heads
    )

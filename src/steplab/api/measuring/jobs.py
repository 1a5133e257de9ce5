"""The jobs of a study that runs on a cluster: what would be submitted, and their end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from steplab.api.measuring.plan import StudyPlan, expectation
from steplab.core.files import real
from steplab.runner.executors import settings
from steplab.runner.slurm.executor import NAME, require_commands
from steplab.runner.slurm.script import Batch, name_prefix
from steplab.runner.slurm.settlement import Bookkeeper, cancel_jobs
from steplab.runner.slurm.shapes import shapes
from steplab.store import records
from steplab.store.paths import StudyFolder
from steplab.store.submissions import Ledger, Shape, Submission
from steplab.study.slurm_settings import SlurmSettings

EXAMPLE = "0123456789"  # the submission in a script that nobody submits
CANCEL_S = 120.0


@dataclass(frozen=True)
class ShapePlan:
    """Trials that can share their allocations, and what these cost."""

    shape: str
    nodes: int
    ranks_per_node: int
    cpus_per_rank: int
    gpus_per_node: int
    trials: int  # without a record
    hours: float  # of allocations, estimated

    @property
    def node_hours(self) -> float:
        """The same times the nodes."""
        return self.hours * self.nodes


@dataclass(frozen=True)
class JobsPlan:
    """What `--executor slurm` would submit."""

    shapes: tuple[ShapePlan, ...]
    jobs: int  # at a time
    script: str  # of a job of the first shape

    def document(self) -> dict[str, Any]:
        """The plan as plain data."""
        rows = [asdict(row) | {"node_hours": row.node_hours} for row in self.shapes]
        return {"shapes": rows, "jobs": self.jobs, "script": self.script}


@dataclass(frozen=True)
class CancelledJobs:
    """The jobs that were ended."""

    folder: Path
    jobs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.jobs)} jobs of {self.folder} ended" if self.jobs else f"{self.folder} has no jobs to end"

    def document(self) -> dict[str, Any]:
        """What `steplab cancel --json` prints."""
        return {"folder": str(self.folder), "cancelled": list(self.jobs)}


def plan_jobs(planned: StudyPlan) -> JobsPlan:
    """What running a plan with `executor="slurm"` would submit; nothing is."""
    wanted = cast(SlurmSettings, settings(planned.study, NAME))
    folder = StudyFolder(real(planned.folder))
    done, of_trials = records.done(folder), shapes(planned.trials, wanted.gpus or 0)
    by_shape: dict[Shape, list[str]] = {}
    for trial, shape in of_trials.items():
        if trial not in done:
            by_shape.setdefault(shape, []).append(trial)
    rows = tuple(_shape_plan(planned, shape, trials) for shape, trials in sorted(by_shape.items(), key=str))
    shape = next(iter(sorted(by_shape, key=str)), None) or Shape(nodes=1, ranks_per_node=1, cpus_per_rank=1)
    script = Batch(folder, wanted).script(Submission(id=EXAMPLE, shape=shape, created=0.0))
    return JobsPlan(rows, wanted.jobs, script)


def _shape_plan(planned: StudyPlan, shape: Shape, trials: list[str]) -> ShapePlan:
    """Of the trials of one shape; finished ones, of whatever shape, tell how long they take."""
    if planned.counts.left < len(planned.trials):
        seconds = planned.seconds / planned.counts.left * len(trials)
    else:
        open_trials = planned.trials.selected(trials)
        seconds = expectation(planned.study, open_trials, StudyFolder(planned.folder), ()).left(open_trials, set())
    return ShapePlan(str(shape), **shape.model_dump(), trials=len(trials), hours=seconds / 3600)


def cancel(folder: Path | str) -> CancelledJobs:
    """End all jobs of a study, those that wait and those that run.

    Finished trials stay, and `run` goes on with the others.
    """
    place = StudyFolder(real(Path(folder)))
    place.must_exist()
    ledger = Ledger(place)
    if not ledger.submissions():
        return CancelledJobs(place.root, ())
    require_commands()
    ledger.cancel()
    ended = cancel_jobs(ledger, name_prefix(place), CANCEL_S)
    Bookkeeper(ledger, since=0.0).look()  # what they left unfinished is nobody's any more, and not their fault
    return CancelledJobs(place.root, tuple(ended))

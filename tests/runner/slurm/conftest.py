"""A Slurm on paper: what it is asked is noted, what it answers a test decides. The real one is in tests/e2e."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from steplab.design.plan import plan
from steplab.runner.slurm import commands
from steplab.runner.slurm.commands import Job
from steplab.runner.slurm.executor import SlurmCampaign
from steplab.store import records
from steplab.store.paths import StudyFolder
from steplab.study.file import read_study
from steplab.study.slurm_settings import SlurmSettings

STUDY = """
[study]
name = "paper"
[factors]
framework = ["synthetic"]
workers = {workers}
batch_size = [8, 16]
[design]
replicates = 1
[measure]
iterations = 4
"""


@dataclass
class PaperSlurm:
    """A queue whose jobs do nothing by themselves."""

    jobs: dict[str, Job] = field(default_factory=dict)  # by number
    kept: dict[str, str] = field(default_factory=dict)  # what accounting says
    refusal: Exception | None = None
    answers: bool = True  # whether the submitter hears the number of its job

    def submit(self, script: str) -> str:
        if self.refusal:
            raise self.refusal
        number = str(len(self.jobs) + 1)
        (name,) = re.findall(r"--job-name=(\S+)", script)
        self.jobs[number] = Job(number, name, "PENDING", reason="Priority")
        if not self.answers:
            raise KeyboardInterrupt  # as good as a SIGKILL: nothing of what follows is done
        return number

    def queue(self) -> list[Job]:
        return list(self.jobs.values())

    def accounts(self, numbers: list[str]) -> dict[str, str]:
        return {number: self.kept[number] for number in numbers if number in self.kept}

    def cancel(self, numbers: list[str]) -> None:
        for number in numbers:
            self.turn(number, "CANCELLED")

    def turn(self, number: str, state: str, nodes: str = "n1") -> None:
        """Let a job come to another state."""
        self.jobs[number] = replace(self.jobs[number], state=state, nodes=nodes, reason="None")

    def forget(self, number: str) -> None:
        """Let a job leave the queue."""
        del self.jobs[number]

    @property
    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in ("PENDING", "RUNNING")]


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> PaperSlurm:
    paper = PaperSlurm()
    for name in ("submit", "queue", "accounts", "cancel"):
        monkeypatch.setattr(commands, name, getattr(paper, name))
    monkeypatch.setattr(commands, "missing", list)
    return paper


Make = Callable[..., SlurmCampaign]


@pytest.fixture
def campaign(tmp_path: Path, slurm: PaperSlurm) -> Make:
    """A laboratory that submits a study of two trials; each call is another one on the same folder."""

    def make(workers: str = "[1]", **settings: object) -> SlurmCampaign:
        path = tmp_path / "study.toml"
        path.write_text(STUDY.format(workers=workers))
        study, folder = read_study(path), StudyFolder(tmp_path / "out")
        records.prepare(folder, study.text)
        return SlurmCampaign(study, plan(study), folder, SlurmSettings.model_validate({"jobs": 1, **settings}))

    return make

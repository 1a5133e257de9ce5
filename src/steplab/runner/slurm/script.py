"""The batch script of a job: what Slurm is asked for, the user's setup, and the laboratory inside."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steplab.core.files import real
from steplab.store.paths import StudyFolder
from steplab.store.submissions import Ledger, Shape, Submission
from steplab.study.slurm_settings import SlurmSettings

PREFIX = "steplab"
INSIDE = "steplab.runner.slurm.allocation"
PASSED_ON = ("STEPLAB_HOME", "STEPLAB_DATA")  # clusters differ in whether jobs inherit variables


@dataclass(frozen=True)
class Batch:
    """All that a batch script depends on."""

    folder: StudyFolder
    settings: SlurmSettings
    modules: Path | None = None  # where the study's own networks are
    python: str = sys.executable

    def script(self, submission: Submission) -> str:
        """The batch script of a submission."""
        options = [f"#SBATCH {option}" for option in self._options(submission)]
        lines = ["#!/bin/bash", *options, *self.settings.setup, *self._variables(), self._laboratory(submission)]
        return "\n".join(lines) + "\n"

    def _options(self, submission: Submission) -> Iterator[str]:
        settings, shape = self.settings, submission.shape
        yield f"--job-name={job_name(self.folder, submission.shape, submission.id)}"
        yield f"--nodes={shape.nodes}"
        yield f"--ntasks-per-node={shape.ranks_per_node}"
        yield f"--cpus-per-task={shape.cpus_per_rank}"
        if shape.gpus_per_node:
            yield f"--gpus-per-node={shape.gpus_per_node}"
        yield f"--time={settings.time}"
        yield f"--signal=B:USR1@{settings.warning_s}"
        yield "--no-requeue"  # a job that ended is settled, and another one submitted
        yield f"--output={_quoted(str(Ledger(self.folder).log(submission.id)))}"
        for name in ("partition", "account", "qos", "constraint"):
            value = getattr(settings, name)
            if value is not None:
                yield f"--{name}={_quoted(value)}"
        if settings.exclusive:
            yield "--exclusive"
        yield from settings.flags

    def _variables(self) -> Iterator[str]:
        for name in PASSED_ON:
            if name in os.environ:
                yield f"export {name}={shlex.quote(os.environ[name])}"

    def _laboratory(self, submission: Submission) -> str:
        """The laboratory takes the shell's place, so that Slurm's warning reaches it."""
        own = ["--modules", str(self.modules)] if self.modules else []
        words = [self.python, "-P", "-m", INSIDE, str(self.folder.root), submission.id, *own]
        return f"exec {shlex.join([*words, '--warning', str(self.settings.warning_s)])}"


def job_name(folder: StudyFolder, shape: Shape, submission: str) -> str:
    """What a job is called; by this it is found, also if whoever submitted it died before Slurm's answer came."""
    return f"{name_prefix(folder)}{shape}-{submission}"


def name_prefix(folder: StudyFolder) -> str:
    """How the names of all jobs of a study's folder begin; nobody else's do."""
    place = hashlib.sha256(os.fsencode(real(folder.root))).hexdigest()[:10]
    return f"{PREFIX}-{place}-"


def _quoted(value: str) -> str:
    """A value of an option as `sbatch` reads it in a script, where `%` begins a pattern."""
    return shlex.quote(value.replace("%", "%%"))

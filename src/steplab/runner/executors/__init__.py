"""Ways to run a campaign, one file each, found by its name: `steplab run --executor NAME`.

An executor's file defines `EXECUTOR`, a class that keeps to `Executor`. It is made for a study, says what is missing
before anything is started, and runs the campaign: in this process with its own `Cluster`, or by laboratories elsewhere
on the same folder. Files whose name begins with an underscore are none.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, runtime_checkable

from steplab.core.errors import InputError, nearest
from steplab.core.measurement import Section
from steplab.design.plan import Plan
from steplab.runner.campaign import Campaign
from steplab.runner.interrupts import Stop
from steplab.study.executors import SETTINGS, merged
from steplab.study.file import read_profile
from steplab.study.sections import Study

LOCAL = "local"


class Executor(Protocol):
    """Runs the trials of a campaign somewhere."""

    def __init__(self, study: Study) -> None: ...

    def check(self, trials: Plan) -> None:
        """Say in one sentence (InputError, EnvironmentFault) what is missing for these trials; nothing is started."""

    def run(self, campaign: Campaign, stop: Stop, limit: int | None = None) -> None:
        """Run what has no record yet, at most `limit` trials."""


@runtime_checkable
class Detachable(Protocol):
    """An executor whose trials run without this process."""

    def submit(self, campaign: Campaign, limit: int | None = None) -> None:
        """Let what has no record yet run elsewhere, at most `limit` trials, and return."""


def detachable(executor: Executor) -> Detachable:
    """An executor that can be left; one sentence on others."""
    if not isinstance(executor, Detachable):
        what = "trials of this executor run in this process, which cannot be left"
        raise InputError(what, where="--detach", hint="use --executor slurm")
    return executor


def executor_names() -> list[str]:
    """All executors; nothing is imported.

    >>> executor_names()
    ['hosts', 'local', 'slurm']
    """
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))


def expect_executor(name: str) -> None:
    """Say so if there is none of that name."""
    if name not in executor_names():
        raise InputError(f"there is no executor {name!r}", where="--executor", hint=nearest(name, executor_names()))


def load_executor(name: str, study: Study) -> Executor:
    """The executor of that name for a study."""
    expect_executor(name)
    kind: type[Executor] = importlib.import_module(f"{__name__}.{name}").EXECUTOR
    return kind(study)


def settings(study: Study, name: str) -> Section:
    """The settings of an executor: of the study, else of the user's profile file, else the defaults."""
    return merged(SETTINGS[name], read_profile().get(name), study.executors.get(name))

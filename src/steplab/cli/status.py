"""What of a study is done, failed, unsupported, doubtful and left, with the reasons."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._left_out import tell
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, shell, table
from steplab.core.trial import Config, describe

app = command_app()
SHOWN = 20
SHORT = 8  # characters of a trial's id, which `run --trial` takes


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    as_json: JsonOption = False,
) -> None:
    """Count the trials of a study and name what went wrong.

    Example: steplab status runs/demo
    """
    study = steplab.open(folder).status(most=None if as_json else SHOWN)
    tell(study.unreadable)
    if as_json:
        print_json(study.document())
        return
    _show(study)
    _show_jobs(study)
    if study.unjudged:
        console().print(f"the times of {study.unjudged} trials were not looked at: `steplab analyze {folder}` does")
    next_step(_next(study, folder))


def _next(study: steplab.StudyStatus, folder: Path) -> str:
    """What to do: go on, try again what failed, or analyse."""
    elsewhere = ("--executor", "slurm") if study.jobs else ()
    again = shell("steplab", "run", folder / "study.toml", "--out", folder, *elsewhere)
    if study.counts.left:
        return again
    return f"{again} --retry-failed" if study.counts.failed else shell("steplab", "analyze", folder)


def _show(study: steplab.StudyStatus) -> None:
    """Counts first, then what went wrong and what is doubtful."""
    show = console()
    show.print(str(study))
    if study.doubtful:
        show.print(f"{study.doubtful} of the measured trials are doubtful, {study.bad} of these bad")
    unmeasured = (*study.failures, *study.refusals)[:SHOWN]
    if unmeasured:
        rows = [[t.trial[:SHORT], t.status, t.reason, _varying(t.config, study)] for t in unmeasured]
        show.print(table(["trial", "status", "reason", "configuration"], rows, left=4))
    if study.doubts:
        rows = [[t.trial[:SHORT], t.verdict, t.doubts, _varying(t.config, study)] for t in study.doubts]
        show.print(table(["trial", "verdict", "doubts", "configuration"], rows, left=4))


def _varying(config: Config, study: steplab.StudyStatus) -> str:
    """The factors of a trial that tell it from others."""
    return describe({name: level for name, level in config.items() if name in study.varied})


def _show_jobs(study: steplab.StudyStatus) -> None:
    """Jobs on a cluster: those that are done only counted."""
    if not study.jobs:
        return
    states = Counter(job.state for job in study.jobs)
    console().print("jobs: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items())), markup=False)
    rows = [[job.job, job.state, job.shape, job.detail] for job in study.jobs if job.state != "done"]
    if rows:
        console().print(table(["job", "", "shape", ""], rows[-SHOWN:], left=4))

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
    found = steplab.open(folder).status(most=None if as_json else SHOWN)
    tell(found.unreadable)
    if as_json:
        print_json(found.document())
        return
    _show(found)
    _show_jobs(found)
    if found.unjudged:
        console().print(f"the times of {found.unjudged} trials were not looked at: `steplab analyze {folder}` does")
    next_step(_next(found, folder))


def _next(found: steplab.StudyStatus, folder: Path) -> str:
    """What to do: go on, try again what failed, or analyse."""
    elsewhere = ("--executor", "slurm") if found.jobs else ()
    again = shell("steplab", "run", folder / "study.toml", "--out", folder, *elsewhere)
    if found.counts.left:
        return again
    return f"{again} --retry-failed" if found.counts.failed else shell("steplab", "analyze", folder)


def _show(found: steplab.StudyStatus) -> None:
    """Counts first, then what went wrong and what is doubtful."""
    show = console()
    show.print(str(found))
    if found.doubtful:
        show.print(f"{found.doubtful} of the measured trials are doubtful, {found.bad} of these bad")
    unmeasured = (*found.failures, *found.refusals)[:SHOWN]
    if unmeasured:
        rows = [[t.trial[:SHORT], t.status, t.reason, _varying(t.config, found)] for t in unmeasured]
        show.print(table(["trial", "status", "reason", "configuration"], rows, left=4))
    if found.doubts:
        rows = [[t.trial[:SHORT], t.verdict, t.doubts, _varying(t.config, found)] for t in found.doubts]
        show.print(table(["trial", "verdict", "doubts", "configuration"], rows, left=4))


def _varying(config: Config, found: steplab.StudyStatus) -> str:
    """The factors of a trial that tell it from others."""
    return describe({name: level for name, level in config.items() if name in found.varied})


def _show_jobs(found: steplab.StudyStatus) -> None:
    """Jobs on a cluster: those that are done only counted."""
    if not found.jobs:
        return
    states = Counter(job.state for job in found.jobs)
    console().print("jobs: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items())), markup=False)
    rows = [[job.job, job.state, job.shape, job.detail] for job in found.jobs if job.state != "done"]
    if rows:
        console().print(table(["job", "", "shape", ""], rows[-SHOWN:], left=4))

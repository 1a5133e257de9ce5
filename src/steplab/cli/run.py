"""Run or resume a study: every trial becomes a record, whatever happens to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._interrupts import listening
from steplab.cli._output import JsonOption, ModulesOption, command_app, console, next_step, print_json, sentence, shell
from steplab.cli._plan_view import show_plan

app = command_app()
INTERRUPTED = 130
SOME_FAILED = 3


@app.command()
def run(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study to run.")],
    out: Annotated[Path | None, typer.Option(help="The study's folder; by default runs/<study name>.")] = None,
    executor: Annotated[str, typer.Option(help="Where trials run: local, hosts, slurm.")] = "local",
    limit: Annotated[int | None, typer.Option(min=0, help="Run at most that many trials now.")] = None,
    trial: Annotated[list[str] | None, typer.Option(help="Run only the trial of this id; may be repeated.")] = None,
    retry_failed: Annotated[bool, typer.Option(help="Run failed trials again.")] = False,
    modules: ModulesOption = None,
    detach: Annotated[bool, typer.Option("--detach", help="Leave as soon as jobs are submitted (slurm).")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the plan, its time, and the differences it can see.")
    ] = False,
    pilot: Annotated[
        bool, typer.Option("--pilot", help="Measure the noise of this machine, then show the plan.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a study, or go on where it stopped. Ctrl-C ends at the next trial, a second one at once.

    Jobs on a cluster go on without this command: call it again to follow them, `steplab cancel` to end them.

    Example: steplab run studies/demo.toml --out runs/demo
    """
    planned = steplab.plan(study_file, out, trial or (), modules=modules, tell=_note, executor=executor)
    if pilot:
        _run_pilot(planned)
    if dry_run or pilot:
        jobs = steplab.plan_jobs(planned) if executor == "slurm" else None
        if planned.note:
            sentence(planned.note, stderr=True)
        if as_json:
            print_json(planned.document() | ({"slurm": jobs.document()} if jobs else {}))
        elif show_plan(planned, jobs):
            again = _again(study_file, out, modules, executor)
            next_step(again if planned.counts.left else shell("steplab", "analyze", planned.folder))
        return
    from steplab.cli._progress import watching

    again = _again(study_file, out, modules, executor)
    try:
        with (
            watching(planned.varied) as bar,
            listening(bar.leaving if executor == "slurm" else bar.stopping) as stop,
        ):
            ended = steplab.run_plan(
                planned, limit, retry_failed=retry_failed, observer=bar, stop=stop, executor=executor, detach=detach
            )
    except KeyboardInterrupt:
        next_step(f"{again}  (goes on where it stopped)")
        raise
    if as_json:
        print_json(ended.document())
    else:
        console().print(f"{ended.counts} in {planned.folder}", markup=False, soft_wrap=True)
        follow = executor == "slurm" and ended.counts.left
        next_step(shell("steplab", "status", planned.folder) if follow else _next(ended, planned.folder, again))
    if ended.counts.failed:
        raise typer.Exit(SOME_FAILED)
    if ended.stopped:
        raise typer.Exit(INTERRUPTED)


def _run_pilot(planned: steplab.StudyPlan) -> None:
    """A few replicates, with the bar that a run has."""
    from steplab.cli._progress import watching

    with watching(planned.varied) as bar, listening(bar.stopping) as stop:
        steplab.run_pilot(planned, observer=bar, stop=stop)


def _note(text: str) -> None:
    sentence(text, stderr=True)


def _again(study_file: Path, out: Path | None, modules: Path | None, executor: str) -> str:
    """The command that goes on with the study."""
    given = [("--out", out), ("--modules", modules), ("--executor", None if executor == "local" else executor)]
    return shell("steplab", "run", study_file, *(word for pair in given if pair[1] is not None for word in pair))


def _next(ended: steplab.RunSummary, folder: Path, again: str) -> str:
    """What to do after a run: go on, look at what went wrong, or analyse."""
    if ended.counts.left:
        return f"{again}  (goes on where it stopped)"
    return shell("steplab", "status" if ended.counts.failed else "analyze", folder)

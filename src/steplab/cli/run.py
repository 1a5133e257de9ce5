"""Run or resume a study: every trial becomes a record, whatever happens to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._interrupts import listening
from steplab.cli._output import JsonOption, ModulesOption, command_app, console, next_step, print_json, shell, table
from steplab.core.trial import describe
from steplab.core.units import seconds as shown

app = command_app()
INTERRUPTED = 130
SOME_FAILED = 3
SHOWN_TRIALS = 12


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
        _show_plan(planned, jobs, _again(study_file, out, modules, executor), as_json)
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
    console(stderr=True).print(text, markup=False, soft_wrap=True)


def _again(study_file: Path, out: Path | None, modules: Path | None, executor: str) -> str:
    """The command that goes on with the study."""
    given = [("--out", out), ("--modules", modules), ("--executor", None if executor == "local" else executor)]
    return shell("steplab", "run", study_file, *(word for pair in given if pair[1] is not None for word in pair))


def _next(ended: steplab.RunSummary, folder: Path, again: str) -> str:
    """What to do after a run: go on, look at what went wrong, or analyse."""
    if ended.counts.left:
        return f"{again}  (goes on where it stopped)"
    return shell("steplab", "status" if ended.counts.failed else "analyze", folder)


def _show_plan(planned: steplab.StudyPlan, jobs: steplab.JobsPlan | None, again: str, as_json: bool) -> None:
    """The plan: which trials, how many, how long."""
    if planned.note:
        console(stderr=True).print(planned.note, markup=False, soft_wrap=True)
    if as_json:
        print_json(planned.document() | ({"slurm": jobs.document()} if jobs else {}))
        return
    show, trials, varied = console(), planned.shown, planned.varied
    rows = [[t.id, t.replicate, *(t.config.get(name) for name in varied)] for t in trials[:SHOWN_TRIALS]]
    show.print(table(["trial", "replicate", *varied], rows))
    if len(trials) > SHOWN_TRIALS:
        show.print(f"… and {len(trials) - SHOWN_TRIALS} more")
    about, replicates = planned.study.about, planned.study.design.replicates
    configurations = f"{len(planned.trials.configurations)} configurations"
    if planned.following is None:
        show.print(f"{about.name}: {len(trials)} trials: {configurations}, {replicates} replicates", markup=False)
    else:
        aim = planned.study.design.aim or "predict"
        show.print(f"{about.name}: adaptive, aim {aim}: chosen from {configurations}; next: {planned.following.why}",
                   markup=False, soft_wrap=True)  # fmt: skip
    show.print("the same in all: " + (describe(planned.same) or "nothing"), markup=False)
    show.print(f"{planned.counts.left} left; estimated time {shown(planned.seconds)} (from {planned.basis})")
    show.print(planned.power.sentence, markup=False, soft_wrap=True)
    missing = planned.missing_environments
    for sentence in missing:
        show.print(f"cannot run yet: {sentence}", markup=False)
    if jobs:
        _show_jobs(jobs)
    if not missing:
        next_step(again)


def _show_jobs(jobs: steplab.JobsPlan) -> None:
    """Which allocations, for how long, and the batch script of the first."""
    cells = [
        [row.shape, row.trials, row.nodes, row.ranks_per_node, row.cpus_per_rank, row.gpus_per_node,
         f"{row.hours:.3g}", f"{row.node_hours:.3g}"]
        for row in jobs.shapes
    ]  # fmt: skip
    columns = ["shape", "trials", "nodes", "ranks a node", "CPUs a rank", "GPUs a node", "hours", "node hours"]
    console().print(table(columns, cells))
    console().print(f"at most {jobs.jobs} jobs at a time; the batch script of the first shape:", markup=False)
    typer.echo(jobs.script)

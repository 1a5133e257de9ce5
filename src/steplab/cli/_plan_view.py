"""What `steplab run --dry-run` shows of a plan: its trials, its size, its time, what it can see and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import typer

import steplab
from steplab.cli._output import console, fits, sentence, table
from steplab.core.trial import describe
from steplab.core.units import seconds as shown

SHOWN_TRIALS = 12
SHOWN_LONG = 3  # trials with too many factors for a row
SHOWN_LEVELS = 12


def show_plan(planned: steplab.StudyPlan, jobs: steplab.JobsPlan | None) -> bool:
    """Show which trials, how many, how long; whether the plan can be run now."""
    _show_trials(planned)
    _show_size(planned)
    sentence("the same in all: " + (describe(planned.same) or "nothing"))
    left = planned.counts.left
    time = f"estimated time {shown(planned.seconds)} (from {planned.basis})" if left else "every trial has its record"
    sentence(f"{left} left; {time}")
    among = "them" if planned.examined == left else f"the first {planned.examined}"
    for reason, number in planned.refused.items():
        sentence(f"{number} of {among} cannot be run: {reason}")
    sentence(planned.power.sentence)
    missing = planned.missing_environments
    for text in missing:
        sentence(f"cannot run yet: {text}")
    if jobs:
        _show_jobs(jobs)
    return not missing


def _show_trials(planned: steplab.StudyPlan) -> None:
    """The first trials, a row each; where the factors are too many for that, the factors one below the other."""
    trials, varied = planned.shown, planned.varied
    rows = [[t.id, t.replicate, *(t.config.get(name) for name in varied)] for t in trials[:SHOWN_TRIALS]]
    drawn, most = table(["trial", "replicate", *varied], rows), SHOWN_TRIALS
    if not fits(drawn):
        console().print(table(["factor", "levels"], [[name, _levels(planned, name)] for name in varied], left=2))
        most = SHOWN_LONG
        long = [[t.id, t.replicate, describe({n: t.config[n] for n in varied if n in t.config})] for t in trials[:most]]
        drawn = table(["trial", "replicate", "configuration"], long, left=3)
    console().print(drawn)
    if len(trials) > most:
        console().print(f"… and {len(trials) - most} more")


def _levels(planned: steplab.StudyPlan, name: str) -> str:
    """The levels of a factor, the first of very many."""
    levels: Sequence[object] = planned.trials.configurations.columns[name].levels
    more = f" … ({len(levels)} in all)" if len(levels) > SHOWN_LEVELS else ""
    return ", ".join(map(str, levels[:SHOWN_LEVELS])) + more


def _show_size(planned: steplab.StudyPlan) -> None:
    """How many trials of how many configurations."""
    about, replicates = planned.study.about, planned.study.design.replicates
    plural = "" if replicates == 1 else "s"
    configurations = f"{len(planned.trials.configurations)} configurations"
    if planned.following is None:
        sentence(f"{about.name}: {len(planned.shown)} trials: {configurations}, {replicates} replicate{plural}")
    else:
        aim = planned.study.design.aim or "predict"
        sentence(f"{about.name}: adaptive, aim {aim}: chosen from {configurations}; next: {planned.following.why}")


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

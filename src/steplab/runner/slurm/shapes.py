"""Which allocation each trial of a plan needs: trials of one shape share their jobs."""

from __future__ import annotations

from collections.abc import Mapping

from steplab.core.resolution import Resolved
from steplab.design.plan import Plan
from steplab.runner.jobs import GROUP_FACTORS, shape
from steplab.store.submissions import Shape


def shape_of(resolved: Resolved, gpus: int = 0) -> Shape:
    """The allocation that a trial needs, on nodes with so many GPUs for it."""
    wanted = shape(resolved)
    workers_of_a_process = resolved.workers // resolved.processes
    return Shape(
        nodes=wanted.nodes,
        ranks_per_node=wanted.ranks_per_node,
        cpus_per_rank=wanted.threads * workers_of_a_process + resolved.loader_workers,
        gpus_per_node=gpus if wanted.device != "cpu" else 0,
    )


def shapes(trials: Plan, gpus: int = 0) -> Mapping[str, Shape]:
    """The shape of every trial, by its id."""
    alike = trials.configurations.distinct((*GROUP_FACTORS, "loader_workers"))
    every = [shape_of(trials.resolved(int(row)), gpus) for row in alike.first]
    return {trial: every[alike.which[row]] for _, row, trial in trials.numbered()}

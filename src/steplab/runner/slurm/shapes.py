"""Which allocation each trial of a plan needs: trials of one shape share their jobs."""

from __future__ import annotations

from collections.abc import Mapping

from steplab.core import catalogue
from steplab.core.resolution import Resolved
from steplab.design.plan import Plan
from steplab.store.submissions import Shape


def shape_of(resolved: Resolved, gpus: int = 0) -> Shape:
    """The allocation that a trial needs, on nodes with so many GPUs for it."""
    workers_of_a_process = resolved.workers // resolved.processes
    return Shape(
        nodes=1,
        ranks_per_node=resolved.processes,
        cpus_per_rank=resolved.threads * workers_of_a_process + resolved.loader_workers,
        gpus_per_node=gpus,
    )


def shapes(trials: Plan, gpus: int = 0) -> Mapping[str, Shape]:
    """The shape of every trial, by its id."""
    alike = trials.configurations.distinct(_deciding())
    every = [shape_of(trials.resolved(int(row)), gpus) for row in alike.first]
    return {trial: every[alike.which[row]] for _, row, trial in trials.numbered()}


def _deciding() -> tuple[str, ...]:
    """The factors that a shape depends on."""
    frameworks = map(catalogue.framework, catalogue.framework_names())
    own = (name for framework in frameworks for name in framework.single_process)
    return ("framework", "workers", "threads", "loader_workers", *own)

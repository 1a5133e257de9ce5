"""From a trial to the job documents of its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steplab.core import catalogue, placement
from steplab.core.resolution import Resolved, data_spec
from steplab.design.plan import Plan, PlannedTrial
from steplab.runner.data.datasets import DataSource
from steplab.runner.ranks.group_key import GroupKey
from steplab.study.sections import Study
from steplab_worker.job import TrialJob

# The factors that decide which group of ranks runs a trial; a framework may have further ones (`single_process`).
GROUP_FACTORS = (
    "framework", "environment", "workers", "nodes", "ranks_per_node", "placement", "device", "threads", "strategy",
    *(name for framework in catalogue.framework_names() for name in catalogue.framework(framework).single_process),
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Shape:
    """What trials want of hosts; those of one shape can run in the same place."""

    placement: str
    nodes: int
    ranks_per_node: int
    threads: int  # of each rank
    device: str


def shape(resolved: Resolved) -> Shape:
    """The shape of a trial."""
    each = resolved.processes // resolved.nodes or 1
    return Shape(resolved.placement, resolved.nodes, each, resolved.threads, resolved.device)


def hosts_wanted(trials: Plan) -> list[tuple[str, int]]:
    """The placements of a plan's trials, each with the nodes that they want; few factors decide, however many vary."""
    rows = trials.configurations.distinct(("placement", *placement.FACTORS)).first
    needed = map(trials.resolved, map(int, rows))
    return sorted({(resolved.placement, resolved.nodes) for resolved in needed})


def group_key(resolved: Resolved) -> GroupKey:
    """The group of ranks that can run a trial."""
    framework = catalogue.framework(resolved.framework)
    apart = framework.strategies_apart and resolved.workers > 1
    counting = [role for role in framework.roles.values() if isinstance(role, str)] if resolved.workers > 1 else []
    return GroupKey(
        framework=resolved.framework,
        environment=resolved.environment,
        workers=resolved.workers,
        threads=resolved.threads,
        processes=resolved.processes,
        strategy=resolved.strategy.partition(":")[0] if apart else "",
        options=tuple((name, resolved.framework_options[name]) for name in counting),
        nodes=resolved.nodes,
        placement=resolved.placement,
        device=resolved.device,
    )


def trial_job(study: Study, trial: PlannedTrial, source: DataSource | None, checkpoints: Path) -> TrialJob:
    """All that the ranks are told about a trial; the same for each of them. It may keep checkpoints in that folder."""
    resolved = trial.resolved
    spec = data_spec(resolved)
    return TrialJob(
        trial=trial.id,
        replicate=trial.replicate,
        kind=study.about.kind,
        config=dict(trial.config),
        network=resolved.network,
        network_options=resolved.network_options,
        network_file=catalogue.network_file(resolved.network),
        input_shape=tuple(spec.shape),
        classes=spec.classes,
        dataset=resolved.dataset,
        data_folder=str(source.folder) if source else "",
        batch_size=resolved.batch_size,
        accumulate=resolved.accumulate,
        strategy=resolved.strategy,
        optimizer=resolved.optimizer,
        learning_rate=resolved.learning_rate,
        augment=resolved.augment,
        precision=resolved.precision,
        recompute=resolved.recompute,
        loader_workers=resolved.loader_workers,
        prefetch=resolved.prefetch,
        options=resolved.framework_options,
        phases=study.measure.phases,
        memory_limit_bytes=(study.measure.memory_limit_mb or 0) << 20,
        seed=study.design.seed + trial.replicate,
        learns=study.kind.learns,
        own=study.kind.job_part(resolved, source.samples if source else None, checkpoints),
    )


def reads_data(resolved: Resolved) -> bool:
    """Whether the trial's framework reads data files."""
    return catalogue.framework(resolved.framework).reads_data

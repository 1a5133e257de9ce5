"""From what was measured to the record of a trial; nothing here starts, reads or asks anything."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from steplab import __version__
from steplab.core import catalogue
from steplab.core.record import Attempt, DataInfo, Host, Rank, Record
from steplab.core.record_parts import MachineInfo, MeasureInfo, ResolvedInfo
from steplab.core.resolution import Resolved
from steplab.core.trial import Trial
from steplab.design.plan import PlannedTrial
from steplab.runner.attempt import Measured, RanksInfo
from steplab.runner.data.datasets import DataSource
from steplab.runner.ranks.host_record import RankUse, host_parts, machine_info
from steplab.runner.ranks.rank_record import rank_part
from steplab.store.paths import StudyFolder
from steplab.study.sections import Study


def trial_record(
    study: Study, trial: PlannedTrial, measured: Measured, attempts: Sequence[Attempt], command: str
) -> Record:
    """The record of a trial by its last attempt, after others that failed; the command repeats it."""
    failure, findings, seen = measured.outcome.failure, measured.findings, measured.seen
    ranks, hosts = _ranks(measured), _hosts(measured)
    watts = study.measure.watts_per_cpu if ranks else None
    return Record(
        study=study.about.name,
        trial=trial.id,
        replicate=trial.replicate,
        kind=study.about.kind,
        status=failure.status if failure else "ok",
        reason=failure.reason if failure else "; ".join(findings.notes),
        log_tail=measured.log_tail,
        attempts=list(attempts),
        config=dict(trial.config),
        resolved=ResolvedInfo.model_validate(vars(trial.resolved)),
        measure=MeasureInfo.model_validate(study.measure.model_dump() | study.section.model_dump()),
        ranks=ranks,
        threads=trial.resolved.threads,
        versions=_versions(trial.resolved, measured),
        variables=list(measured.ranks.variables) if measured.ranks else [],
        machine=_machine(measured),
        hosts=hosts,
        environment=measured.ranks.environment if measured.ranks else None,
        data=_data_info(trial.resolved, measured.source),
        epochs=list(findings.epochs),
        target_accuracy=findings.target_accuracy,
        energy=seen.energy(sum(rank.cpu_s for rank in ranks), watts),
        other_cpu_s=_other_cpu_s(hosts, seen.other_cpu_s) if ranks else None,
        throttled=seen.throttled,
        started=measured.started.isoformat(timespec="milliseconds"),
        seconds=measured.seconds,
        command=command,
    )


def repeat_command(folder: StudyFolder, trial: Trial, modules: Path | None = None) -> str:
    """The command that runs one trial again, into a folder of its own."""
    root = folder.root.absolute()
    again = root.with_name(f"{root.name}-repeat")
    own = ["--modules", str(modules)] if modules else []
    return shlex.join(["steplab", "run", str(folder.study.absolute()), "--trial", trial.id, "--out", str(again), *own])


def _ranks(measured: Measured) -> list[Rank]:
    """The ranks of a trial that ended well."""
    outcome = measured.outcome
    return [_rank(measured, measured.ranks, rank) for rank in sorted(outcome.results)] if measured.ranks else []


def _rank(measured: Measured, ranks: RanksInfo, rank: int) -> Rank:
    outcome = measured.outcome
    offset, gpu = outcome.clock_offsets_s[rank], measured.seen.gpus.get(rank)
    place = ranks.placements[rank] if ranks.placements else None
    return rank_part(ranks.hello[rank], outcome.results[rank], offset, gpu, place)


def _hosts(measured: Measured) -> list[Host]:
    """The hosts of a trial that ended well."""
    ranks, results = measured.ranks, measured.outcome.results
    if ranks is None or not ranks.placements:
        return []
    used = {
        rank: RankUse(ranks.hello[rank].machine, ranks.versions_of.get(rank, {}), result.usage)
        for rank, result in results.items()
    }
    return host_parts(used, ranks.placements, measured.seen.boot, measured.seen.other_cpu_s)


def _other_cpu_s(hosts: Sequence[Host], here: float | None) -> float | None:
    """Of the host where others did most, as far as it is known: all ranks wait for the slowest."""
    known = [host.other_cpu_s for host in hosts if host.other_cpu_s is not None]
    return max(known, default=None) if hosts else here


def _machine(measured: Measured) -> MachineInfo:
    """As rank 0 described it, or the rank that failed; nothing is known where none came so far."""
    failure = measured.outcome.failure
    told = measured.ranks.hello[0].machine if measured.ranks else failure.machine if failure else None
    return machine_info(told) if told else MachineInfo()


def _versions(resolved: Resolved, measured: Measured) -> dict[str, str]:
    """Of steplab, of extensions and of what the ranks ran, and how rank 0 measured."""
    own = {"steplab": __version__, **catalogue.distributions(resolved.framework, resolved.network)}
    results = measured.outcome.results
    methods = results[0].measurement.methods if results else {}
    return {**own, **(measured.ranks.versions if measured.ranks else {}), **methods}


def _data_info(resolved: Resolved, source: DataSource | None) -> DataInfo:
    if source is None:
        return DataInfo(name=resolved.dataset, source="none", samples=0)
    return DataInfo(name=source.name, source=source.source, samples=source.samples, folder=str(source.folder))

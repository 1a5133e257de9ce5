"""What `steplab roofline` looks at: this machine or a machine file, a study's folder or a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from steplab.cli._output import console
from steplab.core.errors import RecordError

if TYPE_CHECKING:
    import pandas as pd

    from steplab.analysis.roofline.points import Roofline, Times
    from steplab.core.record import Record
    from steplab.costs.network import NetworkCost
    from steplab.costs.roofs import Ceilings
    from steplab.store.tables import Tables


def ceilings(machine: str, precision: str, remeasure: bool) -> Ceilings:
    """The roofs: of a machine file if one is named, otherwise of this machine."""
    if machine:
        from steplab.costs.machine_file import read_machine

        return read_machine(machine, precision)
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from steplab.runner.instruments.ceilings import ceilings as of_this_machine

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task("measuring the ceilings of this machine", total=1.0, visible=False)
        return of_this_machine(remeasure, progress=lambda share: shown.update(task, completed=share, visible=True))


def empty(roofs: Ceilings) -> Roofline:
    """A chart of the roofs alone."""
    from steplab.analysis.roofline.points import Roofline

    most = max(row.threads for row in roofs.rows)
    return Roofline("ceilings", roofs.machine, roofs.row(most), (), roofs.notes)


def rooflines(
    source: str, roofs: Ceilings, batch: int, shape: str, threads: int, modules: Path | None
) -> list[Roofline]:
    """One roofline for each configuration of a study, or for a network; none if nothing is named."""
    if not source:
        return []
    from steplab.core.catalogue import network_names
    from steplab.store.paths import StudyFolder

    folder = Path(source)
    # A folder that is no study's must not hide the network of that name.
    named = source in network_names() and not StudyFolder(folder).exists()
    if not named and (folder.is_dir() or "/" in source.partition(":")[0]):
        return list(_of_study(folder, roofs, modules))
    return [_of_network(source, roofs, batch, shape, threads, modules)]


def _of_network(network: str, roofs: Ceilings, batch: int, shape: str, threads: int, modules: Path | None) -> Roofline:
    from steplab.analysis.roofline.points import Roofline, estimated
    from steplab.cli.inspect import _shape, _workload
    from steplab.costs.network import cost

    counted = cost(_workload(network, batch, _shape(shape), None, {}, modules))
    row = roofs.row(threads or max(row.threads for row in roofs.rows))
    notes = [f"{layer.name}: the cost of {layer.kind} is not known" for layer in counted.unknown]
    return Roofline(f"{counted.name}, batch {batch}", roofs.machine, row, tuple(estimated(counted, row)), tuple(notes))


def _of_study(folder: Path, roofs: Ceilings, modules: Path | None) -> Iterator[Roofline]:
    from steplab.cli._left_out import tell
    from steplab.store import records, tables
    from steplab.store.paths import StudyFolder

    loaded = tables.load(folder)
    tell(loaded.unreadable)
    done = loaded.trials[loaded.trials["status"] == "ok"] if len(loaded.trials) else loaded.trials
    if not len(done):
        raise RecordError("no trial has been measured", where=str(folder), hint=f"see `steplab status {folder}`")
    names = [name for name in loaded.factors if name in done]
    groups = [rows for _, rows in done.groupby(names, dropna=False, sort=False)] if names else [done]
    layers = loaded.layers.to_pandas()
    for rows in groups:
        record = records.read_record(StudyFolder(folder), str(rows["trial"].iloc[0]))
        if record.kind == "infer":
            rows = rows.assign(t_f=_inference(loaded, list(rows["trial"])))
        yield of_configuration(record, rows, layers, roofs, modules)


def _inference(loaded: Tables, trials: list[str]) -> float:
    """Median seconds of an inference's forward pass; its trials have no phased mode."""
    asked = "SELECT median(t_f) FROM iterations WHERE NOT warmup AND list_contains(?, trial)"
    found = loaded.connection().execute(asked, [trials]).fetchone()
    return float("nan") if found is None or found[0] is None else float(found[0])


def of_configuration(
    record: Record, rows: pd.DataFrame, layers: pd.DataFrame, roofs: Ceilings, modules: Path | None = None
) -> Roofline:
    """The roofline of one configuration; a network of one's own is looked for in `modules`."""
    from steplab.analysis.roofline.points import Roofline, placed, times_of
    from steplab.core.trial import describe
    from steplab.costs.network import cost
    from steplab.runner.workloads import workload_of

    _expect_known(record)
    resolved, workload = workload_of(record.config, modules)
    counted, row = cost(workload), roofs.row(record.threads)
    times = times_of(rows, layers, resolved.accumulate)
    points = placed(counted, times, row, resolved.optimizer)
    notes = tuple(_notes(record, roofs, counted, times))
    return Roofline(describe(record.config), roofs.machine, row, tuple(points), notes)


def _expect_known(record: Record) -> None:
    """What a foreign source does not say is not known: the defaults of our own trials would count another network."""
    missing = [name for name in ("framework", "network", "dataset") if name not in record.config]
    if record.measure.imported is not None and missing:
        hint = "import it again with --set framework=torch,network=lenet5,dataset=mnist"
        raise RecordError(f"nothing can be counted: {', '.join(missing)} of its trials is not known", hint=hint)


def _notes(record: Record, roofs: Ceilings, counted: NetworkCost, times: Times) -> Iterator[str]:
    """What a reader must know before believing the points."""
    from steplab.analysis.roofline.points import unplaced
    from steplab_worker.machine import machine

    here = machine().host
    device, host = record.versions.get("device", "cpu"), record.machine.host
    if roofs.origin == "measured" and device != "cpu":
        yield f"the trials ran on {device}, these are the roofs of this machine's CPU: name its file with --machine"
    elif roofs.origin == "measured" and host != here:
        yield f"the trials ran on {host}, these are the roofs of {here}"
    elif roofs.origin == "file" and device == "cpu":
        yield f"the trials ran on a CPU of {host}, these are the roofs of {roofs.machine}"
    if not times.phases:
        yield "phases were not measured: set phases = true in [measure]"
    elif not times.layers:
        yield "no layer was timed: this framework cannot, or the trials are inferences"
    missing = unplaced(counted, times)
    if missing:
        yield f"not placed, no count: {', '.join(missing[:5])}{', …' if len(missing) > 5 else ''}"

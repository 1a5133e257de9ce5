"""Rooflines: the ceilings of a machine, and where a study's or a network's layers and phases stand below them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from steplab import kinds
from steplab.analysis.roofline.points import (
    Roofline,
    RooflinePoint,
    Times,
    estimated,
    placed,
    times_of,
    unplaced,
)
from steplab.api import display
from steplab.api.results.roofline_words import document, sentences
from steplab.api.sources.networks import workload
from steplab.core.catalogue import network_names
from steplab.core.errors import InputError, RecordError, allowed
from steplab.core.record import Record
from steplab.core.trial import PRECISIONS, describe
from steplab.core.units import count
from steplab.costs.machine_file import read_machine
from steplab.costs.network import NetworkCost, cost
from steplab.costs.recompute import recomputing
from steplab.costs.roofs import FLOAT32, Ceiling, Ceilings
from steplab.runner.environments.user_networks import OwnPlace
from steplab.runner.instruments.ceilings import ceilings as of_this_machine
from steplab.runner.workloads import workload_of
from steplab.store import records, tables
from steplab.store.paths import StudyFolder
from steplab_worker.machine import machine as this_machine

__all__ = ["FLOAT32", "Ceiling", "Ceilings", "Roofline", "RooflinePoint", "Rooflines", "ceilings", "roofline"]
SHOWN = 3  # configurations in a notebook
USUAL_PEAK = "fp32"  # of machine files; of this machine, that of float32


@dataclass(frozen=True, repr=False)
class Rooflines:
    """The ceilings, and a roofline for each configuration of a study, or for a network."""

    ceilings: Ceilings
    rooflines: tuple[Roofline, ...]
    unreadable: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """What `steplab roofline --json` prints."""
        return document(self.ceilings, self.rooflines)

    def write(self, path: Path | str) -> None:
        """Write the charts as one self-contained page; without rooflines, that of the ceilings alone."""
        from steplab.api.results.roofline_page import write_page

        write_page(Path(path), self.rooflines or (_bare(self.ceilings),))

    def __repr__(self) -> str:
        return f"<Rooflines of {self.ceilings.machine}: {len(self.rooflines)} configurations>"

    def _repr_html_(self) -> str:
        rows = [
            [
                row.threads or None,
                row.precision,
                f"{count(row.flops_per_s)}FLOP/s",
                f"{count(row.bytes_per_s)}B/s",
                f"{row.ridge:.3g}",
            ]
            for row in self.ceilings.rows
        ]
        told = [
            [display.title(roofline.title), *map(display.sentence, sentences(roofline))]
            for roofline in self.rooflines[:SHOWN]
        ]
        return display.block(
            display.title(self.ceilings.machine),
            display.table(("threads", "precision", "peak", "memory", "ridge (FLOP/byte)"), rows, left=0),
            *(part for parts in told for part in parts),
            display.rest(len(self.rooflines) - SHOWN),
        )


def ceilings(
    machine: str = "",
    *,
    precision: str = USUAL_PEAK,
    remeasure: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> Ceilings:
    """The roofs: of a machine file if one is named (`a100`, FILE.toml), otherwise of this machine.

    Those of this machine are measured once, which takes about 15 s, and kept; `progress` hears the share that is done.
    """
    if machine:
        return read_machine(machine, precision)
    if precision not in (USUAL_PEAK, *PRECISIONS):
        where = "the ceilings of this machine"
        raise InputError(f"there is no peak for the precision {precision!r}", where=where, hint=allowed(PRECISIONS))
    return of_this_machine(remeasure, progress=progress)


def roofline(
    source: Path | str = "",
    machine: str | Ceilings = "",
    *,
    precision: str = USUAL_PEAK,
    batch: int = 16,
    input_shape: Sequence[int] | None = None,
    threads: int = 0,
    modules: Path | str | None = None,
    environment: str = "",
    remeasure: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> Rooflines:
    """Show how close a study's layers and phases come to the ceilings of a machine.

    FLOPs and bytes are counted from the network's graph, times are those of the study. Of a network nothing is run: its
    layers are placed by their intensity.

    Args:
        source: A study's folder, or a network; nothing gives the ceilings alone.
        machine: A machine file instead of this machine (`a100`, FILE.toml), or what `ceilings` gave.
        precision: Which peak of the machine file: fp32, tf32_tensor; of this machine, for a network: float32, bfloat16.
        batch: Samples in a batch, for a network.
        input_shape: The shape of a sample, for a network.
        threads: Threads, for a network on this machine; 0 is all.
        modules: The folder of networks of one's own, whose code runs to count them.
        environment: The environment in which a network of one's own runs; those of a study know theirs.
        remeasure: Measure this machine's ceilings anew.
        progress: Hears the share of the measurement that is done.
    """
    named = str(source)
    loaded = tables.load(Path(named)) if named and _is_study(named) else None
    if loaded is not None:
        _expect_countable(Path(named), loaded)  # before 15 s of measuring
        if not machine and precision != USUAL_PEAK:
            raise InputError("on this machine trials stand below the roof of their own precision", where=named)
    own_code = None if modules is None else Path(modules)
    counted = None  # also before
    if named and loaded is None:
        counted = cost(workload(named, batch, input_shape, place=OwnPlace(own_code, environment)))
    roofs = (
        machine
        if isinstance(machine, Ceilings)
        else ceilings(machine, precision=precision, remeasure=remeasure, progress=progress)
    )
    if loaded is not None:
        return Rooflines(roofs, tuple(_of_study(Path(named), loaded, roofs, own_code)), loaded.unreadable)
    return Rooflines(roofs, () if counted is None else (_of_network(counted, roofs, threads, precision),))


def _is_study(source: str) -> bool:
    """Whether a name means a folder; one that is no study's must not hide the network of that name."""
    folder = Path(source)
    named = source in network_names() and not StudyFolder(folder).exists()
    return not named and (folder.is_dir() or "/" in source.partition(":")[0])


def _bare(roofs: Ceilings) -> Roofline:
    """A chart of the roofs alone."""
    return Roofline("ceilings", roofs.machine, roofs.row(roofs.most_threads), (), roofs.notes)


def _of_network(counted: NetworkCost, roofs: Ceilings, threads: int, precision: str) -> Roofline:
    row = roofs.row(threads or roofs.most_threads, precision)
    notes = [f"{layer.name}: the cost of {layer.kind} is not known" for layer in counted.unknown]
    if roofs.origin == "measured" and precision != USUAL_PEAK:
        notes += _precision_notes(roofs, precision)
    return Roofline(
        f"{counted.name}, batch {counted.batch}", roofs.machine, row, tuple(estimated(counted, row)), tuple(notes)
    )


def _expect_countable(folder: Path, loaded: tables.Tables) -> None:
    """Say so if no trial was measured, or if it is not known what the trials of another program ran."""
    done = _done(loaded)
    if not len(done):
        raise RecordError("no trial has been measured", where=str(folder), hint=f"see `steplab status {folder}`")
    _expect_known(records.read_record(StudyFolder(folder), str(done["trial"].iloc[0])))


def _done(loaded: tables.Tables) -> pd.DataFrame:
    return loaded.trials[loaded.trials["status"] == "ok"] if len(loaded.trials) else loaded.trials


def _of_study(folder: Path, loaded: tables.Tables, roofs: Ceilings, modules: Path | None) -> Iterator[Roofline]:
    done = _done(loaded)
    names = [name for name in loaded.factors if name in done]
    groups = [rows for _, rows in done.groupby(names, dropna=False, sort=False)] if names else [done]
    layers = loaded.layers.to_pandas()
    for rows in groups:
        record = records.read_record(StudyFolder(folder), str(rows["trial"].iloc[0]))
        if "t_f" in kinds.named(record.kind).native_phases:
            rows = rows.assign(t_f=_native_forward(loaded, list(rows["trial"])))
        yield of_configuration(record, rows, layers, roofs, modules)


def _native_forward(loaded: tables.Tables, trials: list[str]) -> float:
    """Median seconds of the forward pass in native mode, where its iterations tell it."""
    asked = "SELECT median(t_f) FROM iterations WHERE NOT warmup AND list_contains(?, trial)"
    row = loaded.connection().execute(asked, [trials]).fetchone()
    return float("nan") if row is None or row[0] is None else float(row[0])


def of_configuration(
    record: Record, rows: pd.DataFrame, layers: pd.DataFrame, roofs: Ceilings, modules: Path | None = None
) -> Roofline:
    """The roofline of one configuration; a network of one's own is looked for in `modules`."""
    _expect_known(record)
    resolved, workload = workload_of(record.config, modules, record.kind)
    counted = recomputing(workload) if resolved.recompute else cost(workload)
    row = roofs.row(record.threads, resolved.precision)
    times = times_of(rows, layers, resolved.accumulate)
    points = placed(counted, times, row, resolved.optimizer, resolved.shards)
    notes = tuple(_notes(record, roofs, counted, times))
    return Roofline(describe(record.config), roofs.machine, row, tuple(points), notes)


def _expect_known(record: Record) -> None:
    """What a foreign source does not say is not known: the defaults of our own trials would count another network."""
    if record.measure.imported is None:
        return
    missing = [name for name in ("framework", "network", "dataset") if name not in record.config]
    if not {"batch_size", "global_batch_size"} & set(record.config):
        missing.append("batch_size")
    if missing:
        named, verb = ", ".join(missing), "is" if len(missing) == 1 else "are"
        hint = f"import it again with --set {','.join(f'{name}=…' for name in missing)}"
        raise RecordError(f"nothing can be counted: {named} of its trials {verb} not known", hint=hint)
    whole, each = record.config.get("global_batch_size"), record.resolved.batch_size
    if whole is not None and each is not None and not float(each).is_integer():
        problem = f"a global batch of {whole} does not divide among {record.resolved.workers} workers"
        raise RecordError(f"nothing can be counted: {problem}", hint="the layers' work of each worker is not known")


def _notes(record: Record, roofs: Ceilings, counted: NetworkCost, times: Times) -> Iterator[str]:
    """What a reader must know before believing the points."""
    here = this_machine().host
    device, host = record.versions.get("device", "cpu"), record.machine.host
    if roofs.origin == "measured" and device != "cpu":
        yield f"the trials ran on {device}, these are the roofs of this machine's CPU: name its file with --machine"
    elif roofs.origin == "measured" and host != here:
        yield f"the trials ran on {host}, these are the roofs of {here}"
    elif roofs.origin == "file" and device == "cpu":
        yield f"the trials ran on a CPU of {host}, these are the roofs of {roofs.machine}"
    yield from _precision_notes(roofs, str(record.config.get("precision", FLOAT32)))
    if not times.phases:
        yield "phases were not measured: set phases = true in [measure]"
    elif not times.layers:
        yield "no layer was timed: this framework cannot, or the trials are inferences"
    missing = unplaced(counted, times)
    if missing:
        yield f"not placed, no count: {', '.join(missing[:5])}{', …' if len(missing) > 5 else ''}"


def _precision_notes(roofs: Ceilings, precision: str) -> Iterator[str]:
    if precision not in (FLOAT32, *roofs.precisions):
        yield f"the roof of {precision} is not known: these are those of {roofs.rows[0].precision}"
    elif precision != FLOAT32:
        yield f"bytes are counted as those of {FLOAT32}; in {precision} some of them are half as many"

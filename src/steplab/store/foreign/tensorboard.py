"""Writes a study's trials as TensorBoard runs: iteration times as scalars, factors and medians as hyperparameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steplab import kinds
from steplab.core.errors import TableError
from steplab.core.step_time import step_times
from steplab.core.trial import Level
from steplab.store.foreign.imported import appearing
from steplab.store.tables import Tables
from steplab_worker.phases import ITERATION, SHARES

METRICS = (ITERATION, *SHARES, "throughput", "lif", "memory_bytes", "energy_j")
MOST_POINTS = 1000  # iterations of one trial that are written one by one


def write_tensorboard(tables: Tables, out: Path) -> int:
    """Write the measured trials of a study, one folder of events each; how many there are."""
    trials = tables.trials
    ok = trials[trials["status"] == "ok"] if len(trials) else trials
    if not len(ok):
        raise TableError("the study has no measured trial to export")
    steps = _step_times(tables, ok)
    with appearing(out) as place:
        for _, row in ok.iterrows():
            settings = {str(name): value for name, value in row.items()}
            _run(place / str(row["trial"]), settings, tables.factors, steps.get(row["trial"], np.empty(0)))
    return len(ok)


def _step_times(tables: Tables, trials: pd.DataFrame) -> dict[str, Any]:
    """The native step times of each of these trials without warm-up, one for all ranks."""
    frame = tables.iterations.select(["trial", "mode", "rank", "iteration", "warmup", "t_iter"]).to_pandas()
    measured = frame[(frame["mode"] == "native") & ~frame["warmup"].astype(bool)]
    by_trial = {str(trial): rows for trial, rows in measured.groupby("trial")}
    known = zip(trials["trial"], trials["kind"], trials["strategy"], strict=True)
    return {
        trial: step_times(_by_rank(by_trial[trial]), kinds.named(kind).shares_period(str(strategy)))[:MOST_POINTS]
        for trial, kind, strategy in known
        if trial in by_trial
    }


def _by_rank(rows: pd.DataFrame) -> Any:
    """Ranks × iterations, as far as all ranks have them."""
    return rows.pivot_table(index="rank", columns="iteration", values="t_iter").dropna(axis=1).to_numpy(float)


def _run(place: Path, row: dict[str, Any], factors: tuple[str, ...], times: Any) -> None:
    from tensorboardX.event_file_writer import EventsWriter  # type: ignore[import-untyped]
    from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-untyped]
    from tensorboardX.summary import hparams, scalar  # type: ignore[import-untyped]

    began = pd.Timestamp(row["started"]).timestamp()
    levels = {name: _level(row[name]) for name in (*factors, "replicate") if name in row and not pd.isna(row[name])}
    metrics = {name: float(row[name]) for name in METRICS if name in row and not pd.isna(row[name])}
    events = [(0, summary) for summary in hparams(levels, metrics)]
    events += [(0, scalar(name, value)) for name, value in metrics.items()]
    events += [(at, scalar("iteration/t_iter", float(value))) for at, value in enumerate(times)]
    place.mkdir()
    # Not tensorboardX's FileWriter: it hands events to a thread, and waits for ever if that died of a full disk.
    writer = EventsWriter(str(place / "events"))
    try:
        for step, summary in events:
            writer.write_event(Event(summary=summary, step=step, wall_time=began))
    finally:
        writer.close()


def _level(value: Any) -> Level:
    plain = value.item() if hasattr(value, "item") else value
    return plain if isinstance(plain, bool | int | float | str) else str(plain)

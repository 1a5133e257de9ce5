"""What frameworks are compared by: speed, time to accuracy, memory, energy; and by which trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

TIME, STEP_TIME, THROUGHPUT, TO_ACCURACY = "t_iter", "step time", "throughput", "time to accuracy"
TARGET_TIME = "time_to_target_s"
# What is compared: column, how it is called, whether more of it is better.
MEASURES = (
    (THROUGHPUT, THROUGHPUT, True),
    (TIME, STEP_TIME, False),  # where the batch size, and so the throughput, is not known
    (TARGET_TIME, TO_ACCURACY, False),
    ("memory_bytes", "memory", False),
)


@dataclass(frozen=True)
class Measured:
    """The trials that are compared by a column."""

    trials: pd.DataFrame
    column: str
    name: str
    more_is_better: bool


def measured(ok: pd.DataFrame, shared: Sequence[str]) -> Iterator[Measured]:
    """What was measured of variants of frameworks (`variant` is a column) that share these factors."""
    known = [column for column, *_ in MEASURES if column in ok and ok[column].notna().any()]
    for column, name, more in MEASURES:
        trials = _all_there(ok, [*shared, "variant"]) if column == TARGET_TIME else ok
        if column in known and len(trials) and (column != TIME or THROUGHPUT not in known):
            yield Measured(trials, column, name, more)
    yield from _energies(ok)


def _all_there(ok: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """The trials of configurations of which every run reached its target: one that did not has no time to compare."""
    if "target_accuracy" not in ok or TARGET_TIME not in ok:
        return ok
    short = ok["target_accuracy"].notna() & ok[TARGET_TIME].isna()
    return ok[~short.groupby([ok[key] for key in keys], dropna=False).transform("any")]


def _energies(ok: pd.DataFrame) -> Iterator[Measured]:
    """The energy of a training, and of a sample of all others at the trial's mean power.

    Joules from different sources are different quantities: each source is compared within itself. Those of a whole
    trial hold its warm-up and its instrumented iterations, which are not the same number in every framework.
    """
    if "energy_j" not in ok or not ok["energy_j"].notna().any():
        return
    joules, seconds, throughput = (_numbers(ok, name) for name in ("energy_j", "seconds", THROUGHPUT))
    train = ok["kind"] == "train" if "kind" in ok else pd.Series(False, index=ok.index)
    of_sample = (joules / seconds / throughput).where((seconds > 0) & (throughput > 0) & ~train)
    for what, values in (("trial", joules.where(train)), ("sample", of_sample)):
        known = ok.assign(joules=values)[values.notna()]
        for source, rows in known.groupby("energy_provenance"):
            yield Measured(rows, "joules", f"energy of a {what} ({source})", False)


def _numbers(ok: pd.DataFrame, name: str) -> pd.Series[float]:
    if name not in ok:
        return pd.Series(float("nan"), index=ok.index)
    return pd.to_numeric(ok[name], errors="coerce")

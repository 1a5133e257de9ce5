"""What each rank did in one trial: compute by iteration, and the parts of one typical step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steplab.core.trial import plain_level
from steplab_worker.phases import LAYERED, TIMED

Array = NDArray[np.float64]
MOST_ITERATIONS = 200
MOST_RANKS = 64


@dataclass(frozen=True)
class RankTimes:
    """Ranks × iterations of compute seconds, and each part's seconds by rank in one step."""

    of: str
    ranks: list[int]
    iterations: list[int]
    compute: Array
    step_at: int
    step: dict[str, Array]
    of_ranks: int  # how many there are, shown or not
    of_iterations: int


def rank_times(trials: pd.DataFrame, iterations: pa.Table, varied: tuple[str, ...]) -> RankTimes | None:
    """The ranks of the trial with the greatest load imbalance factor; None without phases of several ranks."""
    if not len(trials) or "lif" not in trials or not len(iterations):
        return None
    several = trials[(trials["status"] == "ok") & (trials["workers"] > 1) & trials["lif"].notna()]
    if not len(several):
        return None
    worst = several.iloc[int(several["lif"].to_numpy(float).argmax())]
    chosen = pc.and_(pc.equal(iterations["trial"], worst["trial"]), pc.equal(iterations["mode"], "phased"))
    rows = iterations.filter(chosen).to_pandas()
    rows = rows[~rows["warmup"]]
    if rows["rank"].nunique() < 2:
        return None
    of = ", ".join(f"{name}={plain_level(worst[name])}" for name in varied if name in worst and worst[name] is not None)
    return _by_rank(rows, of or str(worst["trial"]))


def _by_rank(rows: pd.DataFrame, of: str) -> RankTimes:
    rows = rows.assign(compute=rows[list(LAYERED)].fillna(0.0).sum(axis=1))
    whole = rows.pivot_table(index="rank", columns="iteration", values="compute").dropna(axis=1)
    wide = whole.iloc[:MOST_RANKS]
    times = rows.groupby("iteration")["t_iter"].mean().reindex(wide.columns)
    # The step whose time is the median one is the typical step.
    typical = int(times.sort_values().index[len(times) // 2])
    step = rows[rows["iteration"] == typical].set_index("rank").reindex(wide.index)
    thinned = wide.iloc[:, :: -(-wide.shape[1] // MOST_ITERATIONS)]
    return RankTimes(
        of=of,
        ranks=[int(rank) for rank in wide.index],
        iterations=[int(iteration) for iteration in thinned.columns],
        compute=thinned.to_numpy(float),
        step_at=typical,
        step={part: step[part].to_numpy(float) for part in TIMED if part in step and step[part].notna().all()},
        of_ranks=whole.shape[0],
        of_iterations=whole.shape[1],
    )

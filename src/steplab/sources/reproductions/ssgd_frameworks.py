"""MMU, chapter 3: the phases of synchronous SGD, its aggregation, imbalance and speed-up in several frameworks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from steplab.sources.claim import (
    REFUTED,
    UNDECIDED,
    Array,
    Claim,
    above,
    below,
    blocks,
    both,
    efficiency,
    mean_ratio,
    medians,
    resampled,
    undecided,
)
from steplab.sources.drawing import speedups_chart
from steplab.sources.source import Figure, Measured, PageTable, Question, Source, Tables
from steplab_worker.phases import SHARES

NETWORKS = {"cnn": "lenet5"}  # what the thesis calls a network, and we
CHARTED = ("lenet5", "mlp", "autoencoder")
CELLS = ("framework", "network", "batch_size")
OTHERS = ("mxnet", "chainer")
SCALES_WORSE = "Does TensorFlow scale worse than MXNet and Chainer today?"
WHERE_FROM = "Where does load imbalance come from: from ranks that stay slow, rather than from chance?"
PERSISTENT = 0.5  # a rank's own slowness is the cause if it makes more than this share of the imbalance
BALANCED = 1.005  # a smaller factor has no cause worth a word


def more(measured: list[Measured], trials: pd.DataFrame) -> Tables:
    """How uneven the ranks of each trial are: in each iteration, and in their means over all iterations."""
    return {"imbalance": pd.concat([imbalance(study) for study in measured], ignore_index=True)}


def imbalance(study: Measured) -> pd.DataFrame:
    """For each trial of several ranks LIF = N·max t_i / Σ t_i of the compute times, in three ways.

    `lif_mean` is that of the ranks' mean times, as in the thesis; `lif_iteration` the mean of each iteration's own.
    Between 1 and that lies `lif_persistent`, N times the largest mean share of an iteration's time: what chance moves
    from rank to rank goes out of it, and a single stall counts no more than another iteration.
    """
    chosen = pc.and_(pc.equal(study.iterations["mode"], "phased"), pc.invert(study.iterations["warmup"]))
    frame = study.iterations.filter(chosen).select(["trial", "rank", "iteration", "t_f", "t_b"]).to_pandas()
    frame = frame.assign(compute=frame["t_f"].fillna(0.0) + frame["t_b"].fillna(0.0))
    rows = []
    for trial, part in frame.groupby("trial", sort=False):
        times = part.pivot_table("compute", "iteration", "rank").dropna().to_numpy(float)
        if times.shape[0] and times.shape[1] > 1:
            rows.append({"trial": trial, **_factors(times)})
    return pd.DataFrame(rows, columns=["trial", "lif_iteration", "lif_persistent", "lif_mean"])


def _factors(times: Array) -> dict[str, float]:
    """The three factors of iterations (rows) and ranks (columns)."""
    ranks, means = times.shape[1], times.mean(axis=0)
    shares = times / times.sum(axis=1, keepdims=True)
    return {
        "lif_iteration": float(ranks * shares.max(axis=1).mean()),
        "lif_persistent": float(ranks * shares.mean(axis=0).max()),
        "lif_mean": float(ranks * means.max() / means.sum()),
    }


def tensorflow_scales_worse(tables: Tables) -> Claim:
    """Whether TensorFlow's parallel efficiency is below that of both others, over networks and numbers of workers."""
    measure = "efficiency of TensorFlow over that of the nearer of the others"
    scaled = efficiency(tables["trials"], CELLS)
    cells = (*CELLS[1:], "workers")
    ratios = {
        other: mean_ratio(blocks(scaled, "efficiency", "framework", ("tensorflow", other), cells), len(OTHERS))
        for other in OTHERS
    }
    known = {other: ratio for other, ratio in ratios.items() if ratio is not None}
    if len(known) < len(OTHERS):
        return undecided(
            SCALES_WORSE, "It needs replicates of all three frameworks with one and several workers.", measure
        )
    verdict = both([below(ratio, 1.0) for ratio in known.values()])
    nearest = max(known.values(), key=lambda ratio: ratio.value)
    words = {"confirmed": "Yes", REFUTED: "No", UNDECIDED: "The trials cannot tell"}[verdict]
    parts = " and ".join(f"{ratio} of {other}'s" for other, ratio in known.items())
    counts = " and ".join(f"{count:g}" for count in sorted(scaled["workers"].unique()))
    where = f"with {counts} workers, over {scaled['network'].nunique()} networks"
    told = f"{words}: its efficiency is {parts}, {where}."
    return Claim(SCALES_WORSE, measure, nearest, verdict, told)


def imbalance_comes_from_slow_ranks(tables: Tables) -> Claim:
    """Whether most of the imbalance stays with the same ranks over a trial."""
    measure = "share of the imbalance that stays with the same ranks"
    uneven = tables["imbalance"].query("lif_iteration > @BALANCED")
    share = ((uneven["lif_persistent"] - 1) / (uneven["lif_iteration"] - 1)).to_numpy(float)
    estimate = resampled(share)
    if estimate is None:
        return undecided(WHERE_FROM, "No trial had ranks that were uneven enough.", measure)
    verdict = above(estimate, PERSISTENT)
    words = {
        "confirmed": "Mostly from ranks that stay slow",
        REFUTED: "Mostly from chance: another rank is the slowest in each iteration",
        UNDECIDED: "From both; the trials cannot tell which is more",
    }[verdict]
    told = f"{words}. {estimate} of it stays with the same ranks, over {estimate.n} trials."
    return Claim(WHERE_FROM, measure, estimate, verdict, told)


def phases(tables: Tables) -> pd.DataFrame:
    """Mean and standard deviation over the replicates of each phase, one worker."""
    alone = tables["trials"].query("workers == 1")
    known = [name for name in (*SHARES, "t_iter") if name in alone.columns]
    long = alone.melt(["network", "framework"], known, "phase", "time").dropna()
    long = long.sort_values(["network", "framework"], kind="stable")  # phases stay in their order
    return (
        long.groupby(["network", "framework", "phase"], sort=False)["time"]
        .agg(mean_s="mean", std_s="std")
        .reset_index()
    )


def aggregation(tables: Tables) -> pd.DataFrame:
    """Seconds of exchanging gradients, waiting for the slowest rank included."""
    several = tables["trials"].query("workers > 1")
    return medians(several, ["network", "framework", "workers"], ["t_c"]).rename(columns={"t_c": "t_c_s"})


def imbalance_table(tables: Tables) -> pd.DataFrame:
    """The load imbalance factor by the thesis' definition, that of single iterations, and what of it stays."""
    factors = tables["trials"].merge(tables["imbalance"], on="trial")
    grouped = medians(factors, ["framework", "network", "workers"], ["lif_mean", "lif_iteration", "lif_persistent"])
    return grouped.rename(columns={"lif_mean": "lif"})


def speedup(tables: Tables) -> pd.DataFrame:
    """The step of one and of several workers, S = N·t(1)/t(N) and efficiency; medians over the replicates."""
    scaled = efficiency(tables["trials"], CELLS)
    grouped = medians(scaled, ["network", "framework", "workers"], ["t_alone", "t_iter", "efficiency"])
    return grouped.assign(speedup=grouped["workers"] * grouped["efficiency"])


def speedup_chart(network: str, tables: Tables) -> str:
    """Speed-up over the number of workers in one network."""
    own = speedup(tables)
    return speedups_chart(own[own["network"] == network], "framework", "workers")


def regression(tables: Tables) -> pd.DataFrame:
    """T = β0 + β1·N + β2·LIF by least squares over the trials, and the degrees of freedom that its R² has."""
    rows = []
    trials = tables["trials"].merge(tables["imbalance"], on="trial", how="left")
    trials = trials.assign(lif_mean=trials["lif_mean"].astype(float).fillna(1.0))
    for (network, framework), part in trials.groupby(["network", "framework"]):
        matrix = np.column_stack([np.ones(len(part)), part["workers"], part["lif_mean"]])
        time = part["t_iter"].to_numpy(float)
        beta, _, rank, _ = np.linalg.lstsq(matrix, time, rcond=None)
        scatter = float(((time - time.mean()) ** 2).sum())
        r2 = 1 - float(((time - matrix @ beta) ** 2).sum()) / scatter if scatter else np.nan
        points = part["workers"].nunique()
        told = {"beta0": beta[0], "beta1": beta[1], "beta2": beta[2], "r2": r2, "points": points, "freedom": points - 3}
        rows.append({"network": network, "framework": framework, **(told if rank == 3 else {"points": points})})
    return pd.DataFrame(rows)


ANALYZE = "steplab analyze {folder} --all --section "
SOURCE = Source(
    "ssgd-frameworks",
    "Synchronous SGD in five frameworks",
    "MMU, chapter 3",
    (
        PageTable(
            "phases", phases, f"{ANALYZE}phases", "mmu_3_2_phases", ("network", "framework", "phase"), levels=NETWORKS
        ),
        PageTable(
            "aggregation",
            aggregation,
            f"{ANALYZE}phases",
            "mmu_3_3_aggregation",
            ("network", "framework", "workers"),
            levels=NETWORKS,
        ),
        PageTable(
            "imbalance",
            imbalance_table,
            f"{ANALYZE}imbalance,scaling",
            "mmu_3_4_imbalance",
            ("framework", "network", "workers"),
            levels=NETWORKS,
            reads=("trials", "imbalance"),
        ),
        PageTable("speedup", speedup, f"{ANALYZE}scaling", on=("network", "framework", "workers")),
        PageTable(
            "regression",
            regression,
            f"{ANALYZE}scaling",
            "mmu_3_5_regression",
            ("network", "framework"),
            levels=NETWORKS,
        ),
    ),
    (Question(SCALES_WORSE, tensorflow_scales_worse), Question(WHERE_FROM, imbalance_comes_from_slow_ranks)),
    figures=tuple(
        Figure(f"speedups-{name}", f"Speed-up of {name} over the number of workers", partial(speedup_chart, name))
        for name in CHARTED
    ),
    more=more,
)

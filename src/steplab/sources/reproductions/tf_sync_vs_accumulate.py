"""UFRGS-final: an exchange every batch against one every four batches on a slow network, in TensorFlow."""

from __future__ import annotations

import math

import pandas as pd

from steplab.core.catalogue import build_network
from steplab.core.trial import accumulation
from steplab.models.columns.roles import Roles
from steplab.sources import modelling
from steplab.sources.claim import (
    CONFIRMED,
    REFUTED,
    UNDECIDED,
    Claim,
    above,
    blocks,
    both,
    efficiency,
    mean_ratio,
    medians,
    undecided,
)
from steplab.sources.drawing import speedups_chart
from steplab.sources.source import Figure, Measured, PageTable, Question, Source, Tables

SYNC, ACCUMULATE = "sync", "accumulate:4"
CELLS = ("network", "batch_size", "strategy")
BRINGS_BACK = "Does accumulating over 4 batches bring scaling back on a slow network?"
ROLES = Roles((), ("network", "strategy"), ("batch_size", "workers"))
MODELS = ("linear", "quadratic")
COLUMNS = "--target t_iter --categorical network,strategy --extrinsic batch_size,workers"
FLOAT_BYTES = 4


def more(measured: list[Measured], trials: pd.DataFrame) -> Tables:
    """The step times as the linear and the quadratic model predict them, each fold by a fit without it."""
    own = [rows for rows in modelling.by_framework(trials, ROLES) if len(rows.trials) >= modelling.FEWEST]
    return {"errors": modelling.joined([modelling.errors(rows, MODELS) for rows in own])}


def accumulating_brings_scaling_back(tables: Tables) -> Claim:
    """Whether several workers that accumulate are faster than one, and more so than those that do not."""
    measure = "speed-up of the most workers that accumulate"
    scaled = _most_workers(tables)
    if scaled.empty:
        return undecided(BRINGS_BACK, "It needs trials with one and with several workers.", measure)
    workers = int(scaled["workers"].iloc[0])
    accumulating = scaled[scaled["strategy"] == ACCUMULATE].assign(gain=lambda frame: workers * frame["efficiency"])
    gains = accumulating["gain"].map(math.log).groupby(accumulating["replicate"]).mean()
    gain = mean_ratio(gains.to_numpy(float), 2)
    better = mean_ratio(blocks(scaled, "efficiency", "strategy", (ACCUMULATE, SYNC), CELLS[:2]), 2)
    if gain is None or better is None:
        return undecided(BRINGS_BACK, "It needs replicates of both strategies.", measure)
    verdict = both([above(gain, 1.0), above(better, 1.0)])
    words = {CONFIRMED: "Yes", REFUTED: "No", UNDECIDED: "The trials cannot tell"}[verdict]
    work = f"{workers} workers that accumulate do {gain} times the work of one"
    told = f"{words}: {work}; that is {better} times the efficiency of `sync`."
    return Claim(BRINGS_BACK, measure, gain, verdict, told)


def _most_workers(tables: Tables) -> pd.DataFrame:
    scaled = efficiency(tables["trials"], CELLS)
    most: pd.DataFrame = scaled[scaled["workers"] == scaled["workers"].max()]
    return most


def by_batch(tables: Tables) -> pd.DataFrame:
    """Step, speed-up and efficiency by batch size."""
    return _results(tables, ["network", "strategy", "batch_size"])


def by_nodes(tables: Tables) -> pd.DataFrame:
    """Step, speed-up and efficiency by number of nodes."""
    return _results(tables, ["network", "strategy", "workers"])


def _results(tables: Tables, by: list[str]) -> pd.DataFrame:
    steps = medians(tables["trials"], by, ["t_iter"])
    scaled = efficiency(tables["trials"], CELLS)
    scaled = scaled.assign(speedup=scaled["workers"] * scaled["efficiency"])
    gains = medians(scaled, by, ["speedup", "efficiency"])
    return steps.merge(gains, on=by, how="left")


def speedup_chart(tables: Tables) -> str:
    """Speed-up over the number of nodes by strategy, median over networks and batches."""
    scaled = efficiency(tables["trials"], CELLS)
    own = medians(scaled.assign(speedup=scaled["workers"] * scaled["efficiency"]), ["strategy", "workers"], ["speedup"])
    return speedups_chart(own, "strategy", "nodes")


def models(tables: Tables) -> pd.DataFrame:
    """The linear and the quadratic model of the step time, on held-out rows."""
    return modelling.accuracy(tables["errors"])


def communication(tables: Tables) -> pd.DataFrame:
    """What several workers take longer than one, beside the least time that moving the gradients can take.

    An exchange moves 2·(N − 1)/N times the gradients' bytes over each line; accumulating does so every fourth batch.
    """
    scaled = efficiency(tables["trials"], CELLS)
    if "rate" not in scaled.columns:
        return pd.DataFrame(columns=["network", "strategy", "workers"])
    scaled = scaled.assign(measured_s=scaled["t_iter"] - scaled["t_alone"], predicted_s=_least_seconds(scaled))
    keys = ["network", "strategy", "workers"]
    return medians(scaled, keys, ["measured_s", "predicted_s"])


def exchange(tables: Tables) -> pd.DataFrame:
    """One exchange, from the difference of the strategies, beside the least time that moving the gradients can take.

    Accumulating over four batches leaves out three of four exchanges and nothing else, so that what workers wait for a
    core is in both and cancels.
    """
    scaled = efficiency(tables["trials"], CELLS)
    if "rate" not in scaled.columns:
        return pd.DataFrame(columns=["network", "workers"])
    every = scaled.assign(least_s=_least_seconds(scaled))
    keys = ["network", "workers", "batch_size", "replicate"]
    often = every[every["strategy"] == SYNC][[*keys, "t_iter", "least_s"]]
    seldom = every[every["strategy"] == ACCUMULATE][[*keys, "t_iter"]]
    both_ways = often.merge(seldom, on=keys, suffixes=("", "_seldom"))
    spared = 1 - 1 / accumulation(ACCUMULATE)
    told = both_ways.assign(exchange_s=(both_ways["t_iter"] - both_ways["t_iter_seldom"]) / spared)
    grouped = medians(told, ["network", "workers"], ["exchange_s", "least_s"])
    return grouped.assign(ratio=grouped["exchange_s"] / grouped["least_s"])


def _least_seconds(trials: pd.DataFrame) -> pd.Series:
    every = trials["strategy"].map(lambda name: accumulation(str(name)))
    moved = 2 * (trials["workers"] - 1) / trials["workers"] * trials.apply(_gradient_bytes, axis=1)
    return moved / trials["rate"].map(bytes_per_s) / every


def _gradient_bytes(trial: pd.Series) -> int:
    known = {"filters": int(trial["filters"])} if "filters" in trial.index and trial["network"] == "resnet50" else {}
    return build_network(str(trial["network"]), known, (3, 32, 32), 10).parameters * FLOAT_BYTES


def bytes_per_s(rate: str) -> float:
    """A line's rate as the studies write it.

    >>> bytes_per_s("1gbit"), bytes_per_s("unshaped")
    (125000000.0, inf)
    """
    units = {"gbit": 1e9 / 8, "mbit": 1e6 / 8, "kbit": 1e3 / 8}
    unit = next((unit for unit in units if str(rate).endswith(unit)), None)
    return float("inf") if unit is None else float(str(rate).removesuffix(unit)) * units[unit]


ANALYZE = "steplab analyze {folder} --all --section configurations,scaling"
SOURCE = Source(
    "tf-sync-vs-accumulate",
    "TensorFlow on a slow network",
    "UFRGS-final",
    (
        PageTable("batch", by_batch, ANALYZE, on=("network", "strategy", "batch_size")),
        PageTable("nodes", by_nodes, ANALYZE, on=("network", "strategy", "workers")),
        PageTable(
            "models",
            models,
            f"steplab compare {{folder}} {COLUMNS} --models linear,quadratic",
            on=("framework", "model"),
            reads=("errors",),
        ),
        PageTable("communication", communication, ANALYZE, on=("network", "strategy", "workers")),
        PageTable("exchange", exchange, ANALYZE, on=("network", "workers")),
    ),
    (Question(BRINGS_BACK, accumulating_brings_scaling_back),),
    figures=(Figure("speedups", "Speed-up over the number of nodes, median over networks and batches", speedup_chart),),
    more=more,
)

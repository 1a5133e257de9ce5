"""NYU: AlexNet and ResNet18 on a CPU and on GPUs, their FLOPs, and what bounds them."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pandas as pd

from steplab.analysis.roofline.points import SHORTEST_S, estimated
from steplab.core.catalogue import build_network
from steplab.costs.machine_file import read_machine
from steplab.costs.network import cost
from steplab.costs.operation import from_graph
from steplab.costs.roofs import Bound
from steplab.sources.claim import (
    CONFIRMED,
    REFUTED,
    UNDECIDED,
    Claim,
    above,
    below,
    both,
    mean_share,
    medians,
    undecided,
)
from steplab.sources.drawing import chart
from steplab.sources.source import Figure, Measured, PageTable, Question, Source, Tables

NETWORKS = ("alexnet", "resnet18")
BOUND = "Is AlexNet bandwidth-bound and ResNet18 compute-bound?"
MOST = 0.5  # of the layers' time
A100_BATCHES = (1, 8, 128)  # the laptop's, and that of the full size


def more(measured: list[Measured], trials: pd.DataFrame) -> Tables:
    """Of each trial the time of the layers below each roof, and how near to it they came; the layers; the roofs."""
    points = pd.concat([_points(study) for study in measured], ignore_index=True)
    bounds = points.groupby(["trial", "bound"], as_index=False)[["seconds", "at_roof_s"]].sum()
    return {"bounds": bounds, "layers": _layers(points, trials), "ceilings": _ceilings(points, trials)}


def _points(study: Measured) -> pd.DataFrame:
    """Every layer's pass of every trial below its roof."""
    rows = [
        {
            "trial": trial, "layer": point.layer, "pass": point.of, "bound": point.bound, "seconds": point.seconds,
            "at_roof_s": point.flops / point.attainable, "flops": point.flops, "bytes": point.bytes,
            "peak": roofline.ceiling.flops_per_s, "bytes_per_s": roofline.ceiling.bytes_per_s,
        }
        for trial, roofline in study.rooflines().items()
        for point in roofline.points
        if point.seconds is not None and not point.layer.startswith("t_")
    ]  # fmt: skip
    columns = ["trial", "layer", "pass", "bound", "seconds", "at_roof_s", "flops", "bytes", "peak", "bytes_per_s"]
    return pd.DataFrame(rows, columns=columns)


def _layers(points: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """The layers with their median time over the replicates, so that one can be looked up, and drawn."""
    keys = [name for name in ("network", "device", "threads", "workers", "batch_size") if name in trials.columns]
    known = trials[["trial", *keys]].merge(points, on="trial")
    by = [*keys, "layer", "pass", "bound", "flops", "bytes"]
    return known.groupby(by, as_index=False, sort=False)[["seconds"]].median()


def _ceilings(points: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """The roofs that the trials stood below."""
    keys = [name for name in ("device", "threads") if name in trials.columns]
    known = trials[["trial", *keys]].merge(points, on="trial")
    roofs = known[[*keys, "peak", "bytes_per_s"]].drop_duplicates().sort_values(keys)
    return roofs.assign(ridge=roofs["peak"] / roofs["bytes_per_s"]).rename(columns={"peak": "flops_per_s"})


def alexnet_by_bandwidth(tables: Tables) -> Claim:
    """Whether most of AlexNet's time is spent below the bandwidth roof, and most of ResNet18's below that of compute.

    The share is of the time that layers took; each replicate is a value, the mean over its threads or devices. The
    largest batch is judged: a training as the source's has no small ones.
    """
    measure = "share of AlexNet's time below the bandwidth roof"
    shares = bandwidth_shares(tables)
    shares = shares[shares["batch_size"] == shares["batch_size"].max()]
    of_blocks = {name: part.groupby("replicate")["share"].mean() for name, part in shares.groupby("network")}
    estimates = {name: mean_share(values.to_numpy(float), 2) for name, values in of_blocks.items()}
    alexnet, resnet = (estimates.get(name) for name in NETWORKS)
    if alexnet is None or resnet is None:
        return undecided(BOUND, "It needs replicates of both networks with layer times.", measure)
    verdict = both([above(alexnet, MOST), below(resnet, MOST)])
    words = {CONFIRMED: "Yes", REFUTED: "No", UNDECIDED: "The trials cannot tell"}[verdict]
    batch = f"with batches of {shares['batch_size'].max():g}"
    took = f"layers below the bandwidth roof take {alexnet} of AlexNet's time and {resnet} of ResNet18's"
    told = f"{words}: {batch}, {took}."
    return Claim(BOUND, measure, alexnet, verdict, told)


def bandwidth_shares(tables: Tables) -> pd.DataFrame:
    """Each trial with the share of its layers' time that bandwidth bounds, and how near they come to their roofs."""
    bounds = tables["bounds"].assign(bandwidth=lambda frame: frame["seconds"].where(frame["bound"] != "compute", 0.0))
    sums = bounds.groupby("trial")[["bandwidth", "seconds", "at_roof_s"]].sum()
    shares = pd.DataFrame({"share": sums["bandwidth"] / sums["seconds"], "near": sums["at_roof_s"] / sums["seconds"]})
    return tables["trials"].merge(shares.reset_index(), on="trial")


def steps(tables: Tables) -> pd.DataFrame:
    """Milliseconds of a training image, medians over the replicates."""
    trials = tables["trials"]
    device = "device" if "device" in trials.columns else "threads"
    keys = ["network", "batch_size", device, "workers"]
    return medians(trials.assign(ms_per_image=1000 / trials["throughput"]), keys, ["ms_per_image"])


def flops(tables: Tables) -> pd.DataFrame:
    """FLOPs of one forward image of 224x224 pixels from the networks' graphs; a multiply-add counts as two."""
    totals = {name: cost(from_graph(build_network(name), 1)).totals for name in NETWORKS}
    return pd.DataFrame(
        [(name, float(total.forward_flops)) for name, total in totals.items()], columns=["network", "flops"]
    )


def on_a100(tables: Tables) -> pd.DataFrame:
    """By the roofs of the source's GPU alone: the least time of an image, and the share of it that bandwidth bounds."""
    (roof,) = read_machine("a100", "fp32").rows
    rows = []
    for name, batch in product(NETWORKS, A100_BATCHES):
        points = estimated(cost(from_graph(build_network(name), batch)), roof)
        least = {bound: sum(p.flops / p.attainable for p in points if p.bound == bound) for bound in get_args(Bound)}
        every = sum(least.values())
        rows.append((name, batch, 1000 * every / batch, least["bandwidth"] / every))
    return pd.DataFrame(rows, columns=["network", "batch_size", "least_ms_per_image", "bandwidth_share"])


def roofs(tables: Tables) -> pd.DataFrame:
    """The share of the layers' time below the bandwidth roof, and the share of the roof that layers reach."""
    shares = bandwidth_shares(tables)
    keys = ["network", "batch_size", "device" if "device" in shares.columns else "threads", "workers"]
    return medians(shares, keys, ["share", "near"]).rename(
        columns={"share": "bandwidth_share", "near": "share_of_roof"}
    )


def ceilings(tables: Tables) -> pd.DataFrame:
    """What this machine can do at most, and the intensity from which on arithmetic is the limit."""
    return tables["ceilings"]


def roofline_chart(tables: Tables) -> str:
    """FLOP/s of every layer over its intensity, largest batch, fewest threads; dashed: the roof."""
    layers, roofs = tables["layers"], tables["ceilings"]
    chosen = layers[(layers["batch_size"] == layers["batch_size"].max()) & (layers["seconds"] >= SHORTEST_S)]
    chosen = chosen[(chosen["threads"] == chosen["threads"].min()) & (chosen["flops"] > 0)]
    if chosen.empty:
        return ""
    roof = roofs[roofs["threads"] == chosen["threads"].min()].iloc[0]
    points = chosen.assign(intensity=chosen["flops"] / chosen["bytes"], reached=chosen["flops"] / chosen["seconds"])
    ends = sorted({float(points["intensity"].min()), float(roof["ridge"]), float(points["intensity"].max())})
    guide = pd.DataFrame({"intensity": ends}).assign(
        reached=lambda frame: (frame["intensity"] * roof["bytes_per_s"]).clip(upper=roof["flops_per_s"])
    )
    labels = ("FLOP a byte", "FLOP/s")
    return chart(points, "intensity", "reached", "network", labels=labels, log=True, joined=False, guide=guide)


SOURCE = Source(
    "alexnet-resnet18-roofline",
    "AlexNet and ResNet18 below the roof",
    "NYU",
    (
        PageTable(
            "flops",
            flops,
            "steplab inspect alexnet; steplab inspect resnet18",
            "nyu_flops",
            ("network",),
            measured=False,
        ),
        PageTable("steps", steps, "steplab analyze {folder} --all --section configurations", "nyu_epochs"),
        PageTable(
            "a100",
            on_a100,
            "steplab roofline alexnet --machine a100 --batch 128; steplab roofline resnet18 --machine a100 --batch 128",
            on=("network", "batch_size"),
            measured=False,
        ),
        PageTable("ceilings", ceilings, "steplab roofline {folder}", reads=("ceilings",)),
        PageTable("roofs", roofs, "steplab roofline {folder}", reads=("bounds",)),
    ),
    (Question(BOUND, alexnet_by_bandwidth),),
    figures=(
        Figure(
            "roofline",
            "FLOP/s of every layer, forward and backward, over FLOP a byte; dashed: the roof",
            roofline_chart,
            reads=("layers", "ceilings"),
        ),
    ),
    more=more,
)

"""NYU: AlexNet and ResNet18 on a CPU and on GPUs, their FLOPs, and what bounds them."""

from __future__ import annotations

import pandas as pd

from steplab.core.catalogue import build_network
from steplab.costs.network import cost
from steplab.costs.operation import from_graph
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
from steplab.sources.source import Measured, PageTable, Question, Source, Tables

NETWORKS = ("alexnet", "resnet18")
BOUND = "Is AlexNet bandwidth-bound and ResNet18 compute-bound?"
MOST = 0.5  # of the layers' time


def more(measured: list[Measured], trials: pd.DataFrame) -> Tables:
    """Of each trial the time of the layers below each roof, forward and backward, and how near to it they came."""
    return {"bounds": pd.concat([_bounds(study) for study in measured], ignore_index=True)}


def _bounds(study: Measured) -> pd.DataFrame:
    rows = [
        {"trial": trial, "bound": point.bound, "seconds": point.seconds, "at_roof_s": point.flops / point.attainable}
        for trial, roofline in study.rooflines().items()
        for point in roofline.points
        if point.seconds is not None and not point.layer.startswith("t_")
    ]
    layers = pd.DataFrame(rows, columns=["trial", "bound", "seconds", "at_roof_s"])
    return layers.groupby(["trial", "bound"], as_index=False).sum()


def alexnet_by_bandwidth(tables: Tables) -> Claim:
    """Whether most of AlexNet's time is spent below the bandwidth roof, and most of ResNet18's below that of compute.

    The share is of the time that layers took; each replicate is a value, the mean over its threads or devices.
    """
    measure = "share of AlexNet's time below the bandwidth roof"
    shares = bandwidth_shares(tables)
    of_blocks = {name: part.groupby("replicate")["share"].mean() for name, part in shares.groupby("network")}
    estimates = {name: mean_share(values.to_numpy(float), 2) for name, values in of_blocks.items()}
    alexnet, resnet = (estimates.get(name) for name in NETWORKS)
    if alexnet is None or resnet is None:
        return undecided(BOUND, "It needs replicates of both networks with layer times.", measure)
    verdict = both([above(alexnet, MOST), below(resnet, MOST)])
    words = {CONFIRMED: "Yes", REFUTED: "No", UNDECIDED: "The trials cannot tell"}[verdict]
    told = f"{words}: layers below the bandwidth roof take {alexnet} of AlexNet's time and {resnet} of ResNet18's."
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
    keys = ["network", device, "workers"]
    return medians(trials.assign(ms_per_image=1000 / trials["throughput"]), keys, ["ms_per_image"])


def flops(tables: Tables) -> pd.DataFrame:
    """FLOPs of one forward image of 224x224 pixels from the networks' graphs; a multiply-add counts as two."""
    totals = {name: cost(from_graph(build_network(name), 1)).totals for name in NETWORKS}
    return pd.DataFrame(
        [(name, float(total.forward_flops)) for name, total in totals.items()], columns=["network", "flops"]
    )


def roofs(tables: Tables) -> pd.DataFrame:
    """The share of the layers' time below the bandwidth roof, and the share of the roof that layers reach."""
    shares = bandwidth_shares(tables)
    keys = ["network", "device" if "device" in shares.columns else "threads", "workers"]
    return medians(shares, keys, ["share", "near"]).rename(
        columns={"share": "bandwidth_share", "near": "share_of_roof"}
    )


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
        PageTable("steps", steps, "steplab analyze {folder}", "nyu_epochs"),
        PageTable("roofs", roofs, "steplab roofline {folder}", reads=("bounds",)),
    ),
    (Question(BOUND, alexnet_by_bandwidth),),
    more=more,
)

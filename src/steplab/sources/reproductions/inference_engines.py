"""ASU: inference of a plain CNN in Velox, PyTorch, TensorFlow and others."""

from __future__ import annotations

import pandas as pd

from steplab.core.catalogue import build_network
from steplab.costs.network import cost
from steplab.costs.operation import from_graph
from steplab.sources.claim import CONFIRMED, REFUTED, UNDECIDED, Claim, below, blocks, mean_ratio, medians, undecided
from steplab.sources.drawing import chart
from steplab.sources.source import Figure, PageTable, Question, Source, Tables

VARIANT = ("padding", "filters", "batch_norm", "residual")
CELLS = ("batch_size", "threads", *VARIANT)
VELOX_FASTER = "Is Velox faster than PyTorch on this network?"
TORCH_FASTER = "Is PyTorch faster than TensorFlow on this network?"


def velox_is_faster(tables: Tables) -> Claim:
    """Whether Velox takes less time than PyTorch for the source's own network."""
    return _faster(VELOX_FASTER, tables, "velox", "torch")


def torch_is_faster(tables: Tables) -> Claim:
    """Whether PyTorch takes less time than TensorFlow for the source's own network."""
    return _faster(TORCH_FASTER, tables, "torch", "tensorflow")


def _faster(question: str, tables: Tables, first: str, second: str) -> Claim:
    measure = f"time of {first} over that of {second}"
    ratio = mean_ratio(blocks(_plain(tables), "t_iter", "framework", (first, second), CELLS), 2)
    if ratio is None:
        return undecided(question, "It needs replicates of both.", measure)
    verdict = below(ratio, 1.0)
    words = {CONFIRMED: "Yes", REFUTED: "No", UNDECIDED: "The trials cannot tell"}[verdict]
    return Claim(question, measure, ratio, verdict, f"{words}: over samples and threads the {measure} is {ratio}.")


def _plain(tables: Tables) -> pd.DataFrame:
    """The source's own network: valid convolutions."""
    trials = tables["trials"]
    return trials[trials["padding"] == "valid"] if "padding" in trials.columns else trials


def samples(tables: Tables) -> pd.DataFrame:
    """Seconds for a number of samples, medians over the replicates; the source's own network."""
    wide = _by_framework(_plain(tables), ["batch_size", "threads"])
    return wide.rename(columns={"batch_size": "samples"})


def by_batch(tables: Tables) -> pd.DataFrame:
    """Seconds for the largest number of samples in batches of fewer; the source's own network, one thread."""
    own = _plain(tables).query("threads == 1")
    every = own["batch_size"].max()
    own = own.assign(t_iter=own["t_iter"] * every / own["batch_size"], samples=every)
    return _by_framework(own, ["samples", "batch_size"])


def samples_chart(tables: Tables) -> str:
    """Seconds over the number of samples, one thread."""
    own = _plain(tables).query("threads == 1")
    own = medians(own, ["framework", "batch_size"], ["t_iter"])
    return chart(own, "batch_size", "t_iter", "framework", labels=("samples", "seconds"), log=True, joined=True)


def variants(tables: Tables) -> pd.DataFrame:
    """Seconds of the networks that the source left open, medians over the replicates."""
    trials = tables["trials"]
    names = [name for name in VARIANT if name in trials.columns]
    return _by_framework(trials[trials["padding"] == "same"], names)


def _by_framework(trials: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    wide: pd.DataFrame = trials.pivot_table("t_iter", by, "framework", aggfunc="median").reset_index()
    wide.columns = pd.Index([str(name) for name in wide.columns])
    return wide


def parameters(tables: Tables) -> pd.DataFrame:
    """Parameters of each layer with weights, from the network's graph."""
    layers = cost(from_graph(build_network("cnn9"), 1)).layers
    told = [(layer.name, layer.parameters) for layer in layers if not layer.name.startswith("act")]
    return pd.DataFrame(told, columns=["layer", "parameters"])


ANALYZE = "steplab analyze {folder} --all --section configurations"
SOURCE = Source(
    "inference-engines",
    "Inference in Velox, PyTorch, TensorFlow and others",
    "ASU",
    (
        PageTable("parameters", parameters, "steplab inspect cnn9", "asu_parameters", ("layer",), measured=False),
        PageTable("samples", samples, ANALYZE, on=("samples", "threads")),
        PageTable("batches", by_batch, ANALYZE, on=("samples", "batch_size")),
        PageTable("variants", variants, ANALYZE),
    ),
    (Question(VELOX_FASTER, velox_is_faster), Question(TORCH_FASTER, torch_is_faster)),
    figures=(Figure("seconds", "Seconds over the number of samples, one thread", samples_chart),),
)

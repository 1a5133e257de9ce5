"""UFRGS-plan: ResNet50, data parallel, in PyTorch and in TensorFlow."""

from __future__ import annotations

import pandas as pd

from steplab.sources.claim import (
    CONFIRMED,
    REFUTED,
    UNDECIDED,
    Claim,
    Estimate,
    below,
    blocks,
    mean_ratio,
    medians,
    undecided,
)
from steplab.sources.source import PageTable, Question, Source, Tables

CELLS = ("dataset", "workers", "loader_workers")
FASTER = "Does PyTorch train ResNet50 faster than TensorFlow here?"
STEPS = "Is an iteration shorter in PyTorch, once all is compiled?"
LOADERS = "Do background workers of the loader shorten the epochs?"


def torch_is_faster(tables: Tables) -> Claim:
    """Whether PyTorch's epochs are shorter, over data sets, workers and loaders."""
    measure = "seconds of PyTorch over those of TensorFlow"
    ratio = mean_ratio(blocks(tables["trials"], "train_s", "framework", ("torch", "tensorflow"), CELLS))
    return _shorter(FASTER, measure, ratio)


def torch_steps_are_shorter(tables: Tables) -> Claim:
    """The same for the median iteration, which what is compiled before the first one does not touch."""
    measure = "an iteration's seconds in PyTorch over those in TensorFlow"
    ratio = mean_ratio(blocks(tables["trials"], "t_iter", "framework", ("torch", "tensorflow"), CELLS))
    return _shorter(STEPS, measure, ratio)


def loaders_help(tables: Tables) -> Claim:
    """Whether the most background workers beat none, in both frameworks together."""
    measure = "seconds with background workers over those without"
    trials = tables["trials"]
    if "loader_workers" not in trials.columns or trials["loader_workers"].max() == 0:
        return undecided(LOADERS, "The trials do not vary the loader's workers.", measure)
    most = trials["loader_workers"].max()
    return _shorter(
        LOADERS, measure, mean_ratio(blocks(trials, "train_s", "loader_workers", (most, 0), ("framework", *CELLS[:2])))
    )


def _shorter(question: str, measure: str, ratio: Estimate | None) -> Claim:
    if ratio is None:
        return undecided(question, "It needs replicates of both.", measure)
    verdict = below(ratio, 1.0)
    words = {CONFIRMED: "Yes", REFUTED: "No", UNDECIDED: "The trials cannot tell"}[verdict]
    return Claim(question, measure, ratio, verdict, f"{words}: {measure} are {ratio}.")


def time_and_accuracy(tables: Tables) -> pd.DataFrame:
    """Seconds of an epoch and of an iteration, and the accuracy after the last epoch; medians over the replicates."""
    trials = tables["trials"].assign(epoch_s=lambda frame: frame["train_s"] / frame["epochs"])
    keys = ["dataset", "framework", "workers", "loader_workers"]
    return medians(trials, keys, ["epoch_s", "t_iter", "validation_accuracy"])


def use(tables: Tables) -> pd.DataFrame:
    """CPU time and memory of the ranks, energy and where that number comes from."""
    trials = tables["trials"].assign(cpus=lambda frame: frame["cpu_s"] / frame["seconds"])
    known = [name for name in ("cpus", "memory_bytes", "energy_j") if name in trials.columns]
    keys = ["dataset", "framework", "workers"]
    numbers = medians(trials, keys, known)
    provenance = trials.groupby(keys, as_index=False)["energy_provenance"].agg(
        lambda names: ", ".join(sorted(set(names)))
    )
    return numbers.merge(provenance, on=keys)


ANALYZE = "steplab analyze {folder} --all --section accuracy,configurations"
SOURCE = Source(
    "torch-vs-tensorflow",
    "ResNet50 in PyTorch and TensorFlow",
    "UFRGS-plan",
    (
        PageTable("time", time_and_accuracy, ANALYZE, on=("dataset", "framework", "workers", "loader_workers")),
        PageTable(
            "use", use, "steplab export {folder} --table trials --to trials.csv", on=("dataset", "framework", "workers")
        ),
    ),
    (Question(FASTER, torch_is_faster), Question(STEPS, torch_steps_are_shorter), Question(LOADERS, loaders_help)),
)

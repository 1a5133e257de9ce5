"""What a report shows, gathered into one object; nothing here opens a file or draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from steplab.analysis.study import Analysis
from steplab.analysis.summary import Group
from steplab.analysis.words import sentences


@dataclass(frozen=True)
class Failed:
    """A trial that did not end well."""

    trial: str
    status: str
    reason: str
    config: str


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from and how to get them again."""

    study_text: str
    machine: dict[str, Any]
    versions: dict[str, str]
    command: str
    data: str
    started: str


@dataclass(frozen=True)
class ReportData:
    """Everything a report shows."""

    title: str
    description: str
    analysis: Analysis
    answer: list[str]
    layers: pd.DataFrame  # layer, t_f, t_b: medians in seconds of one configuration
    layers_of: str
    failed: list[Failed]
    provenance: Provenance


def gather(
    title: str,
    description: str,
    analysis: Analysis,
    trials: pd.DataFrame,
    layers: pd.DataFrame,
    provenance: Provenance,
    factors: tuple[str, ...],
) -> ReportData:
    """Gather a report's content from a study's tables."""
    profile, of = layer_profile(trials, layers, analysis)
    return ReportData(
        title=title,
        description=description,
        analysis=analysis,
        answer=[str(sentence) for sentence in sentences(analysis)],
        layers=profile,
        layers_of=of,
        failed=_failed(trials, factors),
        provenance=provenance,
    )


def label(group: Group, names: tuple[str, ...]) -> str:
    """A configuration by the factors that vary."""
    return ", ".join(f"{name}={group.factors[name]}" for name in names if name in group.factors) or "all"


def layer_profile(trials: pd.DataFrame, layers: pd.DataFrame, analysis: Analysis) -> tuple[pd.DataFrame, str]:
    """Median seconds of each layer in the fastest configuration, in the network's order."""
    if not len(layers) or not analysis.groups:
        return pd.DataFrame(columns=["layer", "t_f", "t_b"]), ""
    best = analysis.groups[0]
    chosen = trials
    for name, level in best.factors.items():
        chosen = chosen[chosen[name] == level]
    rows = layers[layers["trial"].isin(chosen["trial"])]
    order = list(dict.fromkeys(rows["layer"]))
    medians = rows.groupby("layer")[["t_f", "t_b"]].median().reindex(order).reset_index()
    return medians, label(best, analysis.varied)


def _failed(trials: pd.DataFrame, factors: tuple[str, ...]) -> list[Failed]:
    if not len(trials):
        return []
    rows = trials[trials["status"] != "ok"]
    return [
        Failed(row["trial"], row["status"], row["reason"], ", ".join(f"{n}={row[n]}" for n in factors if n in row))
        for _, row in rows.iterrows()
    ]

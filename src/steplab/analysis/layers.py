"""The time of each layer of a network, in the fastest configuration whose layers were timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steplab.analysis.statistics.intervals import Interval, median_intervals
from steplab.analysis.summary import Group
from steplab.core.trial import Level
from steplab_worker.phases import LAYERED

UNKNOWN = (float("nan"), float("nan"))


@dataclass(frozen=True)
class ProfiledLayer:
    """A layer's seconds forward and backward: medians over the trials, each with its median over ranks and steps."""

    layer: str
    t_f: float
    t_b: float
    both: Interval  # forward and backward together

    @property
    def seconds(self) -> float:
        """Forward and backward together."""
        return self.both.median


@dataclass(frozen=True)
class LayerProfile:
    """The layers of one configuration in the network's order, and the trials that tell them."""

    factors: dict[str, Level]
    layers: tuple[ProfiledLayer, ...]
    trials: tuple[str, ...]

    def longest(self, most: int | None) -> list[ProfiledLayer]:
        """The layers that take longest, in the network's order."""
        order = sorted(range(len(self.layers)), key=lambda at: -self.layers[at].seconds)
        return [self.layers[at] for at in sorted(order[:most])]


def layer_profile(trials: pd.DataFrame, layers: pa.Table, groups: Sequence[Group]) -> LayerProfile | None:
    """The layers of the fastest of these groups that has them; None where no layer was timed."""
    if not len(layers):
        return None
    timed = trials[trials["trial"].isin(pc.unique(layers["trial"]).to_pylist())]
    for group in groups:
        chosen = timed
        for name, level in group.factors.items():
            chosen = chosen[chosen[name] == level]
        if len(chosen):
            own = tuple(str(trial) for trial in chosen["trial"])
            rows = layers.filter(pc.is_in(layers["trial"], pa.array(own, layers["trial"].type))).to_pandas()
            return LayerProfile(group.factors, _times(rows), own)
    return None


def _times(rows: pd.DataFrame) -> tuple[ProfiledLayer, ...]:
    order = list(dict.fromkeys(rows["layer"]))
    # A layer that is only seen forward, as in an inference, costs nothing backward.
    own = rows.groupby(["layer", "trial"], sort=False)[list(LAYERED)].median().fillna(0.0)
    medians = own.groupby(level="layer").median().reindex(order).to_numpy(dtype=float).tolist()
    both = [own.loc[layer].sum(axis=1).to_numpy(dtype=float) for layer in order]
    return tuple(
        ProfiledLayer(str(layer), forward, backward, interval)
        for layer, (forward, backward), interval in zip(order, medians, _intervals(both), strict=True)
    )


def _intervals(times: Sequence[NDArray[np.float64]]) -> list[Interval]:
    """The median of each layer's times; a layer that takes no time has no ratios, and no interval."""
    taking = [own for own in times if (own > 0).all()]
    known = iter(median_intervals(taking, [UNKNOWN] * len(taking)))
    return [
        next(known) if (own > 0).all() else Interval(float(np.median(own)), None, None, len(own), "none")
        for own in times
    ]

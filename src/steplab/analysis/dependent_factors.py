"""Factors that follow from another one: they are no factors of their own, and must not take series apart.

On a cluster the number of nodes follows from that of GPUs, a framework's version from the framework. Whatever such a
factor does cannot be told from what the other one does, and configurations that differ in "the workers alone" differ in
both. A small table can hide this: where every level stands once, each factor follows from any other. So a factor counts
as dependent only if it never falls while the number of workers grows, or if every level of the other factor was seen
in several configurations, always with the same level of this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

WORKERS = "workers"
# What is asked about, or what fixes the work: these stay factors, whatever they follow from.
OWN = (WORKERS, "framework", "network", "batch_size")
WORK = "global_batch_size"  # grows with the workers where each has a batch of its own: then it says nothing new


@dataclass(frozen=True)
class Dependent:
    """A factor that follows from another one; `multiple` where it is always that many times the other."""

    factor: str
    follows: str
    multiple: float | None

    @property
    def sentence(self) -> str:
        """What a person should know of it."""
        how = f"is always {self.multiple:.4g} × {self.follows}" if self.multiple else f"follows from {self.follows}"
        return f"{self.factor} {how}: the two are one factor here, and their effects cannot be told apart."


def dependent_factors(trials: pd.DataFrame, factors: Sequence[str]) -> list[Dependent]:
    """The factors that follow from others, each with the one that it follows from."""
    varied = [name for name in factors if name in trials and trials[name].nunique(dropna=False) > 1]
    whole = [name for name in varied if trials[name].notna().all()]
    cells = trials[varied].drop_duplicates()
    dependents: dict[str, Dependent] = {}
    for name in sorted(whole, key=lambda name: name not in OWN):
        kept = _followed(name, dependents)  # of two that follow from each other, one stays a factor
        for other in (other for other in whole if other not in (name, *kept, *dependents, *OWN)):
            if _follows(cells, other, name):
                dependents[other] = Dependent(other, name, _multiple(cells[other], cells[name]))
    return [dependents[name] for name in whole if name in dependents]


def independent(factors: Sequence[str], dependents: Sequence[Dependent]) -> list[str]:
    """The factors without those that follow from others."""
    left_out = {dependent.factor for dependent in dependents}
    return [name for name in factors if name not in left_out]


def _followed(name: str, dependents: Mapping[str, Dependent]) -> list[str]:
    """What a factor follows from, and what that follows from, and so on."""
    followed: list[str] = []
    while name in dependents:
        name = dependents[name].follows
        followed.append(name)
    return followed


def _follows(cells: pd.DataFrame, name: str, other: str) -> bool:
    """Whether each level of `other` has one level of `name`, and not by chance alone."""
    pairs = cells[[other, name]].drop_duplicates()
    if pairs[other].duplicated().any():
        return False
    if name == WORK:
        return other == WORKERS and _multiple(pairs[name], pairs[other]) is not None
    return _grows(pairs, name, other) if other == WORKERS else bool((cells[other].value_counts() > 1).all())


def _grows(pairs: pd.DataFrame, name: str, other: str) -> bool:
    """Whether a number never falls while the other one grows."""
    if not (pd.api.types.is_numeric_dtype(pairs[name]) and pd.api.types.is_numeric_dtype(pairs[other])):
        return False
    return bool((np.diff(pairs.sort_values(other)[name].to_numpy(dtype=float)) >= 0).all())


def _multiple(values: pd.Series, others: pd.Series) -> float | None:
    """By which number the others are always multiplied, if there is one."""
    if not all(pd.api.types.is_numeric_dtype(column) for column in (values, others)):
        return None
    known, base = values.to_numpy(dtype=float), others.to_numpy(dtype=float)
    if not (base != 0).all():
        return None
    ratios = known / base
    return float(ratios[0]) if ratios[0] and np.allclose(ratios, ratios[0], rtol=1e-9) else None

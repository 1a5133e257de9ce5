"""The law of a step with all workers as equals, and its weight beside the law within and between nodes.

Tables of clusters rarely tell whether a collective runs over all ranks or in two levels, and the two differ outside of
what was measured. Both are fitted, and the time is their geometric mean: equal weights, which err less than weights
learned at inner borders do (docs/models.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from steplab.models.formulas import physics
from steplab.models.formulas.formula import Node, number, op
from steplab.models.formulas.hybrid_formula import law_formula, law_parameters
from steplab.models.formulas.physics import StepLaw
from steplab.models.parameter import Parameter
from steplab.models.saved_parts import numbers

Array = np.ndarray
HALF = 0.5


@dataclass(frozen=True)
class FlatLaw:
    """The flat law's unknowns, their standard errors, and its weight; the other law has the rest."""

    law: StepLaw
    theta: Array
    errors: Array
    weight: float = HALF

    def joined(self, own: Array, frame: pd.DataFrame) -> Array:
        """The weighted geometric mean of the other law's times and these."""
        flat = physics.step_time(self.law, self.theta, self.law.inputs(frame))
        return np.asarray(own ** (1 - self.weight) * flat**self.weight)

    def node(self, own: Node) -> Node:
        """The same as a formula."""
        flat = law_formula(self.law, self.theta).tree
        return op("mul", op("pow", own, number(1 - self.weight)), op("pow", flat, number(self.weight)))

    def refitted(self, frame: pd.DataFrame, y: Array, start: Array | None) -> FlatLaw:
        """Fitted to other rows, with its weight kept."""
        return replace(self, theta=physics.fit_law(self.law, self.law.inputs(frame), y, start, quick=True))

    def parameters(self) -> list[Parameter]:
        """Its weight and coefficients, named apart from the other law's."""
        own = law_parameters(self.law, self.theta, self.errors)
        named = [replace(p, name=f"flat: {p.name}", symbol=f"{p.symbol}'") for p in own]
        return [Parameter("weight of the flat law", "w", self.weight), *named]

    def to_document(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"theta": self.theta.tolist(), "errors": self.errors.tolist(), "weight": self.weight}

    @classmethod
    def from_document(cls, document: Mapping[str, Any], beside: StepLaw) -> FlatLaw:
        """The inverse of `to_document`, beside the law within and between nodes."""
        law, weight = replace(beside, flat=True), float(document["weight"])
        if not 0 <= weight <= 1 or not beside.parts.nodes:
            raise ValueError("the flat law is damaged")
        theta, errors = (numbers(document[key], len(law.names)) for key in ("theta", "errors"))
        return cls(law, theta, errors, weight)


def flat_law(beside: StepLaw, frame: pd.DataFrame, y: Array) -> FlatLaw:
    """The flat law fitted to the rows."""
    law = replace(beside, flat=True)
    at = law.inputs(frame)
    theta = physics.fit_law(law, at, y, quick=True)
    return FlatLaw(law, theta, physics.uncertainty(law, theta, at, y))

"""Linear regression: a constant, a slope for every numeric factor, a difference for every level."""

from __future__ import annotations

from steplab.models.families.regression import Regression, Term

OFFERED = {"auto": 40, "compare": 0, "report": 10}


class Linear(Regression):
    """t = β0 + Σ β_i·x_i + levels, by least squares."""

    def _terms(self) -> list[Term]:
        return [Term(), *(Term((c,)) for c in self.roles_.numeric), *self._level_terms()]


MODEL = Linear

"""Quadratic regression: squares and products of the numeric factors beside the linear terms."""

from __future__ import annotations

from itertools import combinations_with_replacement

from steplab.models._regression import Regression, Term


class Quadratic(Regression):
    """t = β0 + Σ β_i·x_i + Σ β_ij·x_i·x_j + levels, by least squares."""

    def _terms(self) -> list[Term]:
        pairs = combinations_with_replacement(self.roles_.numeric, 2)
        return [
            Term(), *(Term((c,)) for c in self.roles_.numeric), *self._level_terms(),
            *(Term(pair) for pair in pairs),
        ]  # fmt: skip


MODEL = Quadratic

"""Boosted regression trees on logarithms, tuned by cross-validation; flat beyond the measured range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from steplab.models.base import Array
from steplab.models.families.tuned import UNCHECKED, Setting, TunedModel
from steplab.models.learned.trees import Trees, from_estimators

RATE = 0.1


class GradientBoosting(TunedModel):
    """A sum of small trees, each fitted to what the others leave (Friedman, Ann. Statist. 29, 2001)."""

    settings: ClassVar[tuple[Setting, ...]] = tuple(
        {"trees": trees, "max_depth": depth} for trees in (60, 150) for depth in (3, 5)
    )
    most_rows: ClassVar[int] = 10_000
    array_settings: ClassVar[Mapping[str, Any]] = {"settings": ({"trees": 20, "max_depth": 3},), "interval_folds": 2}

    def _train(self, X: Array, z: Array, setting: Setting) -> Trees:
        from sklearn import config_context
        from sklearn.ensemble import GradientBoostingRegressor

        # The target is standardised, so that boosting starts from zero and needs no constant of its own.
        boosted = GradientBoostingRegressor(
            n_estimators=int(setting["trees"]), max_depth=int(setting["max_depth"]), learning_rate=RATE,
            subsample=0.7, min_samples_leaf=3, random_state=0, init="zero",
        )  # fmt: skip
        with config_context(**UNCHECKED):
            return from_estimators(boosted.fit(X, z).estimators_[:, 0])

    def _train_all(self, X: Array, z: Array, settings: Sequence[Setting]) -> list[Trees]:
        """Fewer trees are the first of more: one run for each depth gives all numbers of trees."""
        most = {setting["max_depth"]: max(settings, key=lambda other: other["trees"])["trees"] for setting in settings}
        runs = {depth: self._train(X, z, {"trees": trees, "max_depth": depth}) for depth, trees in most.items()}
        return [runs[setting["max_depth"]].first(int(setting["trees"])) for setting in settings]

    def _answer(self, learned: Trees, X: Array, inside: Array) -> Array:
        return np.asarray(RATE * learned.each(X).sum(1))

    def _learned_state(self) -> Any:
        return self.learned_.to_document()

    def _learned_from(self, state: Any, width: int) -> Trees:
        return Trees.from_document(state, width)


MODEL = GradientBoosting

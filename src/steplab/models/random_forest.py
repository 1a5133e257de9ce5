"""Random forest on logarithms, tuned by cross-validation; flat beyond the measured range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from steplab.models.base import Array
from steplab.models.families.tuned import UNCHECKED, Setting, TunedModel
from steplab.models.learned.trees import Trees, from_estimators

TREES = 80


class RandomForest(TunedModel):
    """The mean of trees grown on resampled rows (Breiman: Random forests, 2001)."""

    settings: ClassVar[tuple[Setting, ...]] = tuple(
        {"min_samples_leaf": leaf, "max_features": share} for leaf in (1, 3) for share in (0.5, 1.0)
    )
    quick: ClassVar[Setting] = {"trees": 20}
    array_settings: ClassVar[Mapping[str, Any]] = {
        "settings": ({"min_samples_leaf": 1, "max_features": 1.0, "trees": 10},), "interval_folds": 2
    }  # fmt: skip

    def _train(self, X: Array, z: Array, setting: Setting) -> Trees:
        from sklearn import config_context
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(
            int(setting.get("trees", TREES)), max_leaf_nodes=512,
            min_samples_leaf=int(setting["min_samples_leaf"]),
            max_features=setting["max_features"], random_state=0, n_jobs=1,
        )  # fmt: skip
        with config_context(**UNCHECKED):
            return from_estimators(forest.fit(X, z).estimators_)

    def _answer(self, learned: Trees, X: Array, inside: Array) -> Array:
        return np.asarray(learned.each(X).mean(1))

    def _learned_state(self) -> Any:
        return self.learned_.to_document()

    def _learned_from(self, state: Any, width: int) -> Trees:
        return Trees.from_document(state, width)


MODEL = RandomForest

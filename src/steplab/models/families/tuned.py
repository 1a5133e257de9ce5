"""What the learned models share: encoding, settings chosen by cross-validation, quick intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from steplab.models.base import Array, PerformanceModel, folds, numbers
from steplab.models.learned.encoding import Encoding, TargetScale, encoding, target_scale

TUNING_FOLDS = 3
# scikit-learn would check options and rows again for each of thousands of small trees: a quarter of their time.
UNCHECKED = {"skip_parameter_validation": True, "assume_finite": True}
Setting = dict[str, float]


def _drawn(rows: int, most: int, seed: int) -> NDArray[np.int64]:
    """All rows, or as many as may be, drawn by chance: rows are in the order of their values."""
    return np.sort(np.random.default_rng(seed).permutation(rows)[:most]) if rows > most else np.arange(rows)


class TunedModel(PerformanceModel):
    """A learner with a small grid of settings; the one with the least held-out error is used."""

    without_formula: ClassVar[str] = "what is learned is too long to read"
    settings: ClassVar[tuple[Setting, ...]] = ()
    most_rows: ClassVar[int] = 20_000
    # Choosing among settings needs fewer rows than learning with the chosen one.
    tuning_rows: ClassVar[int] = 1_000
    quick: ClassVar[Setting] = {}

    encoding_: Encoding
    scale_: TargetScale
    setting_: Setting
    learned_: Any
    _known_setting: Setting | None = None

    def _train(self, X: Array, z: Array, setting: Setting) -> Any:
        """Learn; what comes back is plain arrays that `_answer` reads."""
        raise NotImplementedError

    def _train_all(self, X: Array, z: Array, settings: Sequence[Setting]) -> list[Any]:
        """Learn with each of several settings; override where they share work."""
        return [self._train(X, z, setting) for setting in settings]

    def _answer(self, learned: Any, X: Array, inside: Array) -> Array:
        """Predict encoded rows; `inside` holds them moved to the border of the measured range."""
        raise NotImplementedError

    def _rows_needed(self, frame: pd.DataFrame) -> int:
        return 10

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        self.encoding_ = encoding(frame, self.roles_.numeric, self.levels_)
        self.scale_ = target_scale(y)
        X, z = self.encoding_.matrix(frame), self.scale_.forward(y)
        rows = _drawn(len(z), self.most_rows, seed=0)
        group = None if groups is None else groups[rows]
        self.setting_ = self._known_setting or self._best_setting(X[rows], z[rows], group)
        self.learned_ = self._train(X[rows], z[rows], self.setting_)

    def _best_setting(self, X: Array, z: Array, groups: Array | None) -> Setting:
        if len(self.settings) == 1:
            return self.settings[0]
        rows = _drawn(len(z), self.tuning_rows, seed=1)
        X, z, groups = X[rows], z[rows], None if groups is None else groups[rows]
        predicted = np.full((len(self.settings), len(z)), np.nan)
        settings = [setting | self.quick for setting in self.settings]
        for train, test in folds(len(z), groups, TUNING_FOLDS):
            for at, learned in enumerate(self._train_all(X[train], z[train], settings)):
                predicted[at, test] = self._answer(learned, X[test], X[test])
        return self.settings[int(np.argmin([np.nanmean(np.abs(row - z)) for row in predicted]))]

    def _out_of_fold(self, X: Array, z: Array, groups: Array | None, setting: Setting, wanted: int) -> Array:
        predicted = np.full(len(z), np.nan)
        for train, test in folds(len(z), groups, wanted):
            predicted[test] = self._answer(self._train(X[train], z[train], setting), X[test], X[test])
        return predicted

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        """Refits with the chosen setting: choosing again in each fold costs much and changes little."""
        X, z = self.encoding_.matrix(frame), self.scale_.forward(y)
        rows = _drawn(len(z), self.most_rows, seed=0)
        predicted = np.full(len(z), np.nan)
        group = None if groups is None else groups[rows]
        out = self._out_of_fold(X[rows], z[rows], group, self.setting_, self.interval_folds)
        predicted[rows] = self.scale_.back(out)
        return predicted

    def _border_copy(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> TunedModel:
        """Learns with the chosen setting: choosing again at each border costs much and changes little."""
        other = clone(self)
        other.roles_, other.target_, other._known_setting = self.roles_, self.target_, self.setting_ | self.quick
        other._learn(frame.reset_index(drop=True), y, groups)
        return other  # type: ignore[no-any-return]

    def _predict(self, frame: pd.DataFrame) -> Array:
        X, inside = self.encoding_.matrix(frame), self.encoding_.matrix(frame, clamped=True)
        return self.scale_.back(self._answer(self.learned_, X, inside))

    def _learned_state(self) -> Any:
        """The learned arrays as JSON data."""
        raise NotImplementedError

    def _learned_from(self, state: Any, width: int) -> Any:
        """The inverse of `_learned_state`, checked."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        return {
            "encoding": self.encoding_.to_document(), "scale": asdict(self.scale_), "setting": self.setting_,
            "learned": self._learned_state(),
        }  # fmt: skip

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.encoding_ = Encoding.from_document(state["encoding"])
        used = {part.column for part in self.encoding_.numeric} | {c for c, _ in self.encoding_.levels}
        if not used <= set(self.roles_.columns):
            raise ValueError("the encoding names columns that the model does not have")
        scale = state["scale"]
        unit, centre, width = (float(v) for v in numbers([scale[n] for n in ("unit", "centre", "scale")], 3))
        self.scale_ = TargetScale(bool(scale["logarithmic"]), unit, centre, width)
        self.setting_ = {str(name): float(value) for name, value in state["setting"].items()}
        columns = len(self.encoding_.numeric) + len(self.encoding_.levels)
        self.learned_ = self._learned_from(state["learned"], max(columns, 1))

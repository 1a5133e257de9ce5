"""The noise between replicates on this machine, kept between studies: what the next design can see follows from it.

One small file in STEPLAB_HOME, as that of durations: what cannot be read is empty, what cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steplab.api.measuring.durations import Shape
from steplab.core.atomic import name_aside
from steplab.core.home import home

MOST_FREEDOM = 200.0  # what a shape's past counts for at most: machines change
MOST_SHAPES = 500
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Scatter:
    """Squares of deviations of log times from their configuration's mean, and the degrees of freedom behind them."""

    freedom: float = 0.0
    squares: float = 0.0

    def plus(self, other: Scatter) -> Scatter:
        """Both together."""
        return Scatter(self.freedom + other.freedom, self.squares + other.squares)

    def at_most(self, freedom: float) -> Scatter:
        """The same as if of fewer trials."""
        part = min(1.0, freedom / self.freedom) if self.freedom else 1.0
        return Scatter(self.freedom * part, self.squares * part)

    @property
    def noise(self) -> float:
        """The standard deviation of logarithms."""
        return math.sqrt(self.squares / self.freedom)


def remembered_noise() -> dict[Shape, Scatter]:
    """What earlier studies saw on this machine."""
    try:
        with _file().open("rb") as file:
            rows = json.loads(file.read(MOST_BYTES))
        return {Shape(str(f), str(n), int(w)): _scatter(*numbers) for f, n, w, *numbers in rows[:MOST_SHAPES]}
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return {}


def _scatter(freedom: float, squares: float) -> Scatter:
    numbers = float(freedom), float(squares)
    if not all(math.isfinite(number) for number in numbers) or numbers[0] <= 0 or numbers[1] < 0:
        raise ValueError("no scatter")
    return Scatter(*numbers)


def remember_noise(new: Mapping[Shape, Scatter]) -> None:
    """Add what a run saw; the newest shapes stay."""
    before = remembered_noise()
    whole = {shape: before.get(shape, Scatter()).plus(seen).at_most(MOST_FREEDOM) for shape, seen in new.items()}
    kept = list({**whole, **{shape: seen for shape, seen in before.items() if shape not in whole}}.items())
    rows = [[*shape, seen.freedom, seen.squares] for shape, seen in kept[:MOST_SHAPES]]
    aside = _file().with_name(name_aside(_file().name))
    with contextlib.suppress(OSError):
        aside.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(rows), encoding="utf-8")
        os.replace(aside, _file())  # noqa: PTH105 - said as what it is: one move


def _file() -> Path:
    return home() / "noise.json"

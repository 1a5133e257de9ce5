"""How long trials took on this machine, kept between studies: the first estimate of the next one is better for it.

One small file in STEPLAB_HOME. Losing it costs nothing but a worse first estimate, so what cannot be read is empty and
what cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from steplab.core.atomic import name_aside
from steplab.core.home import home

MOST_TRIALS = 20.0  # what a shape's past counts for at most: machines and versions change
MOST_SHAPES = 500
MOST_BYTES = 1 << 20


class Shape(NamedTuple):
    """What decides most about how long a trial takes, beside its size: start-up, compiling, exchange."""

    framework: str
    network: str
    workers: int


@dataclass(frozen=True)
class Took:
    """Trials of a shape: how many, the seconds that they took in all, and those that the guess gave them."""

    trials: float = 0.0
    seconds: float = 0.0
    guessed: float = 0.0

    def plus(self, other: Took) -> Took:
        """Both together."""
        return Took(self.trials + other.trials, self.seconds + other.seconds, self.guessed + other.guessed)

    def at_most(self, trials: float) -> Took:
        """The same as if of fewer trials."""
        part = min(1.0, trials / self.trials) if self.trials else 1.0
        return Took(self.trials * part, self.seconds * part, self.guessed * part)


def remembered() -> dict[Shape, Took]:
    """What earlier studies took on this machine."""
    try:
        with _file().open("rb") as file:
            rows = json.loads(file.read(MOST_BYTES))
        return {Shape(str(f), str(n), int(w)): _took(*numbers) for f, n, w, *numbers in rows[:MOST_SHAPES]}
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return {}


def _took(trials: float, seconds: float, guessed: float) -> Took:
    numbers = [float(trials), float(seconds), float(guessed)]
    if not all(math.isfinite(number) and number > 0 for number in numbers):
        raise ValueError("no number of trials or seconds")
    return Took(*numbers)


def remember(new: Mapping[Shape, Took]) -> None:
    """Add what a run took; the newest shapes stay."""
    before = remembered()
    whole = {shape: before.get(shape, Took()).plus(took).at_most(MOST_TRIALS) for shape, took in new.items()}
    kept = list({**whole, **{shape: took for shape, took in before.items() if shape not in whole}}.items())
    rows = [[*shape, took.trials, took.seconds, took.guessed] for shape, took in kept[:MOST_SHAPES]]
    aside = _file().with_name(name_aside(_file().name))
    with contextlib.suppress(OSError):
        aside.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(rows), encoding="utf-8")
        os.replace(aside, _file())  # noqa: PTH105 - said as what it is: one move


def _file() -> Path:
    return home() / "durations.json"

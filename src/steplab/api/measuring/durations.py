"""How long trials took on this machine, kept between studies: the first estimate of the next one is better for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from steplab.api.measuring.shape_memory import ShapeMemory

MOST_TRIALS = 20.0  # what a shape's past counts for at most: machines and versions change


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


def _checked(trials: float, seconds: float, guessed: float) -> Took:
    numbers = [float(trials), float(seconds), float(guessed)]
    if not all(math.isfinite(number) and number > 0 for number in numbers):
        raise ValueError("no number of trials or seconds")
    return Took(*numbers)


DURATIONS = ShapeMemory("durations.json", _checked, MOST_TRIALS)

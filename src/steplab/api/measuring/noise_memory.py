"""The noise between replicates on this machine, kept between studies: what the next design can see follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from steplab.api.measuring.shape_memory import ShapeMemory

MOST_FREEDOM = 200.0  # what a shape's past counts for at most: machines change


@dataclass(frozen=True)
class Scatter:
    """Squares of deviations of log times from their configuration's mean, and the degrees of freedom behind them."""

    freedom: float = 0.0
    squares: float = 0.0

    def plus(self, other: Scatter) -> Scatter:
        """Both together."""
        return Scatter(self.freedom + other.freedom, self.squares + other.squares)

    def beyond(self, part: Scatter) -> Scatter:
        """What the deviations of a part of the same trials do not hold."""
        return Scatter(self.freedom - part.freedom, max(self.squares - part.squares, 0.0))

    def at_most(self, freedom: float) -> Scatter:
        """The same as if of fewer trials."""
        part = min(1.0, freedom / self.freedom) if self.freedom else 1.0
        return Scatter(self.freedom * part, self.squares * part)

    @property
    def noise(self) -> float:
        """The standard deviation of logarithms."""
        return math.sqrt(self.squares / self.freedom)


def _checked(freedom: float, squares: float) -> Scatter:
    numbers = float(freedom), float(squares)
    if not all(math.isfinite(number) for number in numbers) or numbers[0] <= 0 or numbers[1] < 0:
        raise ValueError("no scatter")
    return Scatter(*numbers)


NOISE = ShapeMemory("noise.json", _checked, MOST_FREEDOM)

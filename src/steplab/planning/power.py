"""Which differences a design will be able to see, from the noise between replicates, before anything is measured.

The least difference of two mean logarithms that a two-sided test at 5 % finds in four of five studies:
(t₀.₉₇₅ + t₀.₈)·σ·√(1/n₁ + 1/n₂), with the noise pooled over all configurations (Montgomery: Design and Analysis of
Experiments, chapter 2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy import stats

LEVEL, POWER = 0.05, 0.8


@dataclass(frozen=True)
class Power:
    """The least relative differences that a design sees in four of five studies."""

    noise: float  # standard deviation between replicates, of logarithms
    basis: str  # where the noise is known from
    replicates: int
    pair: float | None  # of two single configurations; None if one replicate tells nothing of them
    effects: Mapping[str, float]  # of two levels of a factor, on average over the design
    wish: float | None = None  # a difference that is to be seen
    needed: int | None = None  # replicates of each configuration that it takes

    @property
    def sentence(self) -> str:
        """In words."""
        known = f"noise between replicates {math.expm1(self.noise):.1%}, from {self.basis}"
        parts = [] if self.pair is None else [f"two configurations from {self.pair:.1%}"]
        parts += [f"two levels of {name} on average from {effect:.1%}" for name, effect in self.effects.items()]
        if self.needed is not None:
            return f"to see a difference of {self.wish:.1%} takes about {self.needed} replicates of each ({known})"
        if not parts:
            return f"this design can tell no difference from noise, for lack of replicates ({known})"
        return f"differences that this design sees in four of five runs: {'; '.join(parts)} ({known})"


def least_difference(noise: float, first: float, second: float, freedom: float) -> float:
    """The least relative difference of means of so many trials each.

    >>> round(least_difference(0.15, 10, 10, 18), 2)
    0.22
    """
    spread = noise * math.sqrt(1 / first + 1 / second)
    quantiles = float(stats.t.ppf(1 - LEVEL / 2, freedom)) + float(stats.t.ppf(POWER, freedom))
    return math.expm1(quantiles * spread)


def design_power(
    noise: float, basis: str, configurations: int, replicates: int, levels: Mapping[str, int], wish: float | None = None
) -> Power:
    """The powers of a design whose factors have so many levels each, evenly used."""
    trials = configurations * replicates
    freedom = configurations * (replicates - 1)
    pair = least_difference(noise, replicates, replicates, freedom) if freedom >= 1 else None
    left = trials - 1 - sum(number - 1 for number in levels.values())
    effects = {
        name: least_difference(noise, trials / number, trials / number, left)
        for name, number in levels.items()
        if number > 1 and left >= 1
    }
    needed = None if wish is None else replicates_needed(noise, wish)
    return Power(noise, basis, replicates, pair, effects, wish, needed)


def replicates_needed(noise: float, difference: float) -> int:
    """Replicates of each of two configurations that see a relative difference in four of five studies.

    >>> replicates_needed(0.15, 0.2), replicates_needed(0.15, 0.05)
    (12, 150)
    """
    number = 2
    while number < 10**6 and least_difference(noise, number, number, 2 * (number - 1)) > difference:
        number += max(1, number // 50)
    return number

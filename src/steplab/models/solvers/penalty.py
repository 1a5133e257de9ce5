"""Penalties on coefficients and powers, written as people write them: `none`, `l2:0.001`, `l2:cv`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from steplab.core.errors import ModelError
from steplab.models.solvers.varpro import Penalty

HINT = "write none, l1:0.01, l2:0.001, l2:coef=0.001,power=0.1 or l2:cv"
# λ from weak to strong, as the source scanned it (MMU thesis, chapter 4).
STRONGEST = 1e9  # beyond it nothing is left of a coefficient
SCAN = tuple(10.0**k for k in range(-6, 2))


@dataclass(frozen=True)
class PenaltyChoice:
    """A penalty, or the wish that cross-validation choose its λ."""

    penalty: Penalty
    by_cross_validation: bool = False


def _strength(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= STRONGEST:
        raise ModelError(f"penalty {whole!r}: λ = {text!r} is not a number from 0 to {STRONGEST:g}", hint=HINT)
    return value


def parse_penalty(text: str) -> PenaltyChoice:
    """A penalty from its text.

    >>> parse_penalty("l2:coef=0.001,power=0.1").penalty
    Penalty(kind='l2', coef=0.001, power=0.1)
    """
    kind, _, rest = text.strip().partition(":")
    if kind == "none" and not rest:
        return PenaltyChoice(Penalty())
    if kind not in ("l1", "l2") or not rest:
        raise ModelError(f"penalty {text!r} is unknown", hint=HINT)
    if rest == "cv":
        return PenaltyChoice(Penalty(kind), by_cross_validation=True)
    if "=" not in rest:
        return PenaltyChoice(Penalty(kind, _strength(rest, text), _strength(rest, text)))
    parts = dict(part.partition("=")[::2] for part in rest.split(","))
    if not set(parts) <= {"coef", "power"}:
        raise ModelError(f"penalty {text!r} is unknown", hint=HINT)
    return PenaltyChoice(
        Penalty(kind, _strength(parts.get("coef", "0"), text), _strength(parts.get("power", "0"), text))
    )

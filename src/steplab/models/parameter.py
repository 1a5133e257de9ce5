"""A fitted number, as every model reports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """A fitted number with its 95 % interval, and whether the data determine it."""

    name: str
    symbol: str
    value: float
    low: float | None = None
    high: float | None = None
    identified: bool = True
    std: float | None = None

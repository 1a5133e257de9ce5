"""Options: what a network or a framework lets a study vary, with default and allowed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Tuple


@dataclass(frozen=True)
class Option:
    """One thing that can be varied: its default, and either its levels or its range.

    A network's option with `shapes=False` has no part in whether the network fits its data.
    """

    default: Any
    help: str
    levels: Optional[Tuple[Any, ...]] = None
    low: Optional[float] = None
    high: Optional[float] = None
    shapes: bool = True

    def problem(self, value: Any) -> str:
        """What is wrong with a value, or an empty string.

        >>> Option(6, "filters", low=1).problem(0)
        'must be at least 1'
        >>> Option("relu", "activation", levels=("relu", "tanh")).problem("relu")
        ''
        """
        if self.levels is not None:
            same = any(value == level and type(value) is type(level) for level in self.levels)
            return "" if same else "must be one of " + ", ".join(repr(level) for level in self.levels)
        if not _same_type(value, self.default):
            return "must be of the kind of " + repr(self.default)
        if self.low is not None and value < self.low:
            return "must be at least " + repr(self.low)
        if self.high is not None and value > self.high:
            return "must be at most " + repr(self.high)
        return ""


def _same_type(value: Any, default: Any) -> bool:
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, (int, float)) and value == value and abs(value) != float("inf")
    return isinstance(value, type(default))

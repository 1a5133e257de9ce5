"""Parts of a saved model, checked as they are read; a ValueError means that the document is damaged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray


def numbers(value: object, *shape: int | None) -> Array:
    """Finite numbers from a saved document, of that shape (None: any length); ValueError otherwise."""
    array = np.asarray(value, float)
    fits = len(array.shape) == len(shape) and all(w in (None, g) for w, g in zip(shape, array.shape, strict=True))
    if not fits or not np.isfinite(array).all():
        raise ValueError(f"numbers of shape {shape} are damaged")
    return array


def require_finite(state: object) -> None:
    """A saved state holds finite numbers only, however a model reads them."""
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list) else ()
    for part in parts:
        if isinstance(part, float) and not np.isfinite(part):
            raise ValueError("a number is not finite")
        require_finite(part)


def strings(value: object) -> list[str]:
    """A list of names."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of names is damaged")
    return value


def require_different(columns: Sequence[str]) -> None:
    """At least one column, and none twice."""
    if len(set(columns)) < len(columns) or not columns:
        raise ValueError("a column has two roles, or none has one")


def bounds(value: object) -> tuple[float, float]:
    """The least and the largest measured value."""
    low, high = numbers(value, 2)
    if low > high:
        raise ValueError("a range is damaged")
    return float(low), float(high)

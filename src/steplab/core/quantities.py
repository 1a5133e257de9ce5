"""Quantities as people write them, with their units: "25 Gbit/s", "10 µs". A number without a unit is none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from steplab.core.errors import InputError

_BITS = {"bit": 1.0, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9, "Tbit": 1e12}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
BANDWIDTHS = {f"{unit}/s": factor / 8 for unit, factor in _BITS.items()} | {
    f"{unit}/s": factor for unit, factor in _BYTES.items()
}
DURATIONS = {"s": 1.0, "ms": 1e3, "µs": 1e6, "us": 1e6, "ns": 1e9}  # of them in a second: dividing rounds once
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*(\S+)\s*")


def bandwidth(text: object) -> float:
    """Bytes per second; a ValueError says what is wrong.

    >>> bandwidth("25 Gbit/s"), bandwidth("12.5 MB/s")
    (3125000000.0, 12500000.0)
    """
    value, factor = _quantity(text, BANDWIDTHS, "25 Gbit/s")
    return value * factor


def duration(text: object) -> float:
    """Seconds; a ValueError says what is wrong.

    >>> duration("10 µs"), duration("0.5ms")
    (1e-05, 0.0005)
    """
    value, parts = _quantity(text, DURATIONS, "10 µs")
    return value / parts


def _quantity(text: object, units: Mapping[str, float], example: str) -> tuple[float, float]:
    """The number and what its unit stands for."""
    parts = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    # The Greek letter and the micro sign look alike.
    unit = parts[2].replace("μ", "µ") if parts else ""
    if parts is None or unit not in units:
        raise ValueError(f"must be a number above 0 with its unit, such as {example!r}; units: {', '.join(units)}")
    value = float(parts[1])
    if not 0 < value < math.inf:
        raise ValueError(f"must be above 0 and finite, such as {example!r}")
    return value, units[unit]


def whole_numbers(text: str, where: str) -> list[int]:
    """Whole numbers from 1 on, with commas between them; empty for none.

    >>> whole_numbers("2, 3", "--ranks"), whole_numbers("", "--ranks")
    ([2, 3], [])
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() and len(part) < 11 and 0 < int(part) < 1 << 31 for part in parts):
        raise InputError(f"{text!r} is no list of whole numbers above 0", where=where, hint="write 2,3")
    return [int(part) for part in parts]

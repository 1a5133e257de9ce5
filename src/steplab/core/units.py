"""Numbers as people read them: seconds, bytes, counts, with three significant digits."""

from __future__ import annotations

import math
import re

from steplab.core.errors import InputError
from steplab_worker.phases import WORDS

ROUNDING_S = 1e-12  # no clock tells less
TELLS_NOTHING = 1e4  # times the lower end: of an interval as wide, ends are no news


def _scaled(value: float, steps: tuple[tuple[float, str], ...], smallest: tuple[float, str]) -> str:
    # 999.9 ms are 1 s.
    factor, unit = next((step for step in steps if float(f"{abs(value) / step[0]:.3g}") >= 1), smallest)
    number = value / factor
    return f"{number:.{'0f' if 999.5 <= abs(number) < 1e5 else '3g'}} {unit}".rstrip()


def seconds(value: float) -> str:
    """A duration.

    >>> seconds(0.0123), seconds(4), seconds(250), seconds(7300), seconds(0), seconds(0.9997)
    ('12.3 ms', '4 s', '4 min 10 s', '2 h 1 min', '0 s', '1 s')
    """
    if abs(value) < ROUNDING_S:
        return "0 s"
    if not math.isfinite(value):
        return "-"
    if value >= 3600:
        return f"{int(value // 3600)} h {int(value % 3600 // 60)} min"
    if value >= 120:
        return f"{int(value // 60)} min {int(value % 60)} s"
    return _scaled(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")), (1e-9, "ns"))


def quantity(column: str, value: float) -> str:
    """A value of a column: step times and phases with their unit, others as plain numbers.

    >>> quantity("t_iter", 0.0145), quantity("images", 14500.0)
    ('14.5 ms', '1.45e+04')
    """
    return seconds(value) if column in WORDS else f"{value:.4g}"


def span(low: float, high: float) -> str:
    """Two durations in the unit of the longer one.

    >>> span(0.0859, 0.095)
    '85.9–95 ms'
    """
    if not math.isfinite(high) or high >= 120:
        return f"{seconds(low)}–{seconds(high)}"
    value, unit = seconds(high).split(" ")
    scale = high / float(value) if float(value) else 1.0
    return f"{low / scale:.3g}–{value} {unit}"


def share_span(low: float, high: float) -> str:
    """Two shares in per cent.

    >>> share_span(0.4049, 0.43)
    '40.5–43 %'
    """
    return f"{100 * low:.3g}–{100 * high:.3g} %"


def count(value: float) -> str:
    """A count with a decimal prefix.

    >>> count(61706), count(8.18e9)
    ('61.7 k', '8.18 G')
    """
    return _scaled(value, ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")), (1.0, ""))


def rate(value: float) -> str:
    """A throughput: three digits at least, however slow a step is.

    >>> rate(316.4), rate(0.0421), rate(18234.0)
    ('316', '0.0421', '18.2 k')
    """
    return count(value)


def by(ratio: float) -> str:
    """How far a ratio is from 1: in per cent, or as a factor from 2 on.

    >>> by(1.123), by(0.5), by(1.0042), by(22.08), by(1e9)
    ('12 %', 'a factor of 2', '0.42 %', 'a factor of 22.1', 'a factor of 1000 or more')
    """
    far = max(ratio, 1 / ratio) if ratio > 0 else math.inf
    if far >= 1000:
        return "a factor of 1000 or more"
    if far >= 1.995:
        return f"a factor of {far:.3g}"
    percent = 100 * (far - 1)
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.2g} %"


def ratio_span(low: float | None, high: float | None) -> str:
    """The interval of a ratio, for a cell of a table; nothing where there is none.

    It has as many digits as show on which side of 1 it lies.

    >>> ratio_span(0.837, 1.112), ratio_span(1.003, 1.032), ratio_span(1.0, 1.0), ratio_span(1e-9, 4.1)
    ('0.84–1.11', '1.003–1.032', '1.00–1.00', 'anything')
    """
    if low is None or high is None:
        return ""
    if high >= TELLS_NOTHING * low:
        return "anything"
    nearest = min(abs(low - 1), abs(high - 1)) if low > 1 or high < 1 else 1.0
    digits = next((digits for digits in (2, 3, 4, 5) if round(nearest, digits) > 0), 6)
    return f"{low:.{digits}f}–{high:.{digits}f}"


def ends(low: float, high: float) -> str:
    """The interval of a ratio; two digits after the point where both ends are ordinary numbers.

    >>> ends(0.837, 1.112), ends(0.002, 4.1), ends(1e-9, 4.1)
    ('0.84 to 1.11', '0.002 to 4.1', 'the interval tells nothing')
    """
    if high >= TELLS_NOTHING * low:
        return "the interval tells nothing"
    ordinary = low >= 0.01 and high < 1000
    return f"{low:.2f} to {high:.2f}" if ordinary else f"{low:.2g} to {high:.2g}"


def more_or_less(ratio: float) -> str:
    """A ratio as a change: per cent up to twice, then as so many times.

    >>> more_or_less(1.12), more_or_less(0.9), more_or_less(22.08), more_or_less(0.04)
    ('+12 %', '−10 %', '22.1 times', '0.04 times')
    """
    if not 0.5 <= ratio < 1.995:
        return f"{ratio:.3g} times"
    return f"{'+' if ratio >= 1 else '−'}{abs(100 * (ratio - 1)):.2g} %"


BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def parse_size(text: str) -> int:
    """A number of bytes with its unit.

    >>> parse_size("24GB"), parse_size("1.5 GiB")
    (24000000000, 1610612736)
    """
    parts = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([a-z]{1,3})\s*", text.lower())
    if parts is None or parts[2] not in BYTES:
        raise InputError(f"{text!r} is no size", hint="write it like 24GB or 512MiB")
    return int(float(parts[1]) * BYTES[parts[2]])


def size(value: float) -> str:
    """A number of bytes.

    >>> size(2048), size(3.5 * 2**30), size(1010 * 2**20)
    ('2 KiB', '3.5 GiB', '1010 MiB')
    """
    steps = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
    return _scaled(value, steps, (1.0, "B"))


def energy(value: float) -> str:
    """A number of joules.

    >>> energy(470.5), energy(1.29e6)
    ('470 J', '1.29 MJ')
    """
    return _scaled(value, ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ")), (1.0, "J"))

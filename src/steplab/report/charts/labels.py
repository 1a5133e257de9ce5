"""Names of configurations in charts: whole, in lines that fit, never cut before the factor that decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steplab.core.plain_text import plain
from steplab.core.trial import Level

LINE = 44  # letters in a line beside a row
LONGEST_LEVEL = 40
BREAK = "<br>"


def shortened(level: object, longest: int = LONGEST_LEVEL) -> str:
    """A level without its middle where it is too long: paths and own networks differ at their ends.

    >>> shortened("module:networks/mine.py:make_large_network", 21)
    'module:net…ge_network'
    """
    text = str(level)
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[-(longest - 1 - head) :]}"


def parts(levels: Mapping[str, Level], names: Sequence[str]) -> list[str]:
    """The factors of a configuration as charts write them, those that it has."""
    return [plain(f"{name}={shortened(levels[name])}") for name in names if name in levels]


def in_a_line(levels: Mapping[str, Level], names: Sequence[str]) -> str:
    """A configuration as the name of a series; the legend breaks it where it must.

    >>> in_a_line({"workers": 2, "strategy": "sync"}, ["strategy", "workers"])
    'strategy=sync, workers=2'
    """
    return ", ".join(parts(levels, names)) or "all"


def in_lines(levels: Mapping[str, Level], names: Sequence[str], longest: int = LINE) -> str:
    """A configuration as the name of a row, in as many lines as it needs.

    >>> in_lines({"workers": 2, "strategy": "sync"}, ["strategy", "workers"], 15)
    'strategy=sync,<br>workers=2'
    """
    lines: list[str] = []
    for part in parts(levels, names) or ["all"]:
        if lines and len(lines[-1]) + len(part) + 2 <= longest:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return f",{BREAK}".join(lines)


def most_lines(texts: Sequence[str]) -> int:
    """The lines of the tallest of these names."""
    return max((text.count(BREAK) + 1 for text in texts), default=1)

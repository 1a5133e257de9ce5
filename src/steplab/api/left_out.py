"""Files in a study's folder that could not be used, in sentences."""

from __future__ import annotations

from collections.abc import Collection

SHOWN = 20


def left_out(problems: Collection[str], what: str = "left out") -> list[str]:
    """One sentence for each file, and for many of them their number."""
    more = len(problems) - SHOWN
    return [f"{what}: {problem}" for problem in list(problems)[:SHOWN]] + [f"{what}: {more} files more"] * (more > 0)

"""When a trial is warm: a decision on its times alone, shared by who directs a trial and who doubts it afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steplab.core.steadiness import Array, robust_sigma, trend

BLOCK = 5  # iterations (whole accumulations) between two looks
CAP = 40  # warm-up ends here, steady or not; the trial's verdict says so
WINDOW = 20  # how far back a slow decline is looked for
TOLERANCE = 0.05  # smaller changes than this do not matter
DECLINE_P = 0.05


def is_steady(times: Sequence[float]) -> bool:
    """Whether the last two blocks agree, by 5 % or within the noise, and no slow change runs through the last ones.

    Blocks alone would miss a decline of less than 5 % a block, which over fifty iterations is a large one.

    >>> is_steady([9, 3, 2, 2, 2, 1, 1, 1, 1, 1])
    False
    >>> is_steady([1, 1, 1, 1, 1, 1, 1, 1.01, 1, 1])
    True
    >>> is_steady([1.2 * 0.99**i for i in range(10)])
    False
    """
    if len(times) < 2 * BLOCK:
        return False
    recent = np.asarray(times[-WINDOW:], dtype=float)
    return _blocks_agree(recent[-2 * BLOCK : -BLOCK], recent[-BLOCK:]) and not _changes(recent)


def _blocks_agree(before: Array, now: Array) -> bool:
    middle = float(np.median(now))
    return abs(float(np.median(before)) - middle) <= max(TOLERANCE * middle, robust_sigma(now))


def _changes(recent: Array) -> bool:
    """Whether a trend through all of it is sure and large; an early peak alone does not make one."""
    drift = trend(recent)
    return abs(drift.change) > TOLERANCE and drift.p < DECLINE_P

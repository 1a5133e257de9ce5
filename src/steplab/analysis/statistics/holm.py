"""Many questions asked of the same data: p-values corrected so that hardly any answer is false by chance."""

from __future__ import annotations

from collections.abc import Sequence


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's corrected p-values (Scandinavian Journal of Statistics 6, 1979); None stays None.

    >>> holm([0.01, None, 0.04])
    [0.02, None, 0.04]
    """
    ranked = sorted((p, at) for at, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, at) in enumerate(ranked):
        largest = max(largest, min(1.0, p * (len(ranked) - rank)))
        corrected[at] = largest
    return corrected

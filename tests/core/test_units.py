"""Numbers as people read them: no power of ten where a unit would do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from steplab.core.units import count, energy, seconds, size, span


@pytest.mark.parametrize(("written", "low", "high"), [(seconds, -8, 5), (count, 0, 14), (size, 0, 14), (energy, 0, 11)])
def test_every_size_has_a_unit(written: Callable[[float], str], low: float, high: float) -> None:
    for value in np.logspace(low, high, 4001):
        assert "e" not in written(float(value))


@pytest.mark.parametrize("value", [0.9996, 0.0009997, 9.996e-7])
def test_what_rounds_up_to_a_unit_has_that_unit(value: float) -> None:
    assert seconds(value) == seconds(value / 0.9999).replace("1.0", "1")
    assert "e" not in span(0.98 * value, value)


def test_the_next_unit_begins_where_rounding_reaches_it() -> None:
    assert [seconds(0.9994), seconds(0.9996), count(999.6), size(1023.9)] == ["999 ms", "1 s", "1 k", "1 KiB"]
    assert [size(1020), size(1020 * 2**30), size(1023.6 * 2**10)] == ["1020 B", "1020 GiB", "1 MiB"]

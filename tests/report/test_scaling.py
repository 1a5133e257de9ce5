"""The picture of speed-ups: an interval that nobody can use does not press the lines to the ground."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from steplab.report.charts.scaling import speedup


def chart(high: float, series: int = 1) -> Any:
    """Speed-ups of 1 and 1.8 with two workers, whose interval ends so high."""
    groups = [
        SimpleNamespace(
            workers=workers,
            factors={"workers": workers, "batch_size": batch},
            speedup=SimpleNamespace(value=value, low=value, high=max(value, end)),
            efficiency=value / workers,
        )
        for batch in range(series)
        for workers, value, end in ((1, 1.0, 1.0), (2, 1.8, high))
    ]
    made: Any = speedup(SimpleNamespace(analysis=SimpleNamespace(varied=["workers", "batch_size"], groups=groups)))  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize("series", [1, 12])
def test_a_huge_interval_is_cut_off_and_that_is_said(series: int) -> None:
    made = chart(50.0, series)
    assert made.figure.layout.yaxis.range[1] == pytest.approx(1.08 * 2 * 2.0)
    assert any("leave the picture" in remark for remark in made.remarks)
    assert any(" (1.8 to 50)" in (trace.customdata or ()) for trace in made.figure.data)


@pytest.mark.parametrize("series", [1, 12])
def test_an_ordinary_interval_is_shown_whole(series: int) -> None:
    made = chart(2.5, series)
    assert made.figure.layout.yaxis.range[1] == pytest.approx(1.08 * 2.5)
    assert not any("leave the picture" in remark for remark in made.remarks)

"""The picture of step times by factor: bars are 95 % intervals, or there are none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steplab.report.charts.times import by_factor


def bars(trials: pd.DataFrame, varied: list[str], groups: list[Any]) -> list[list[tuple[float, float]]]:
    """How far the bars of each panel reach below and above the medians, in milliseconds."""
    chart: Any = by_factor(SimpleNamespace(analysis=SimpleNamespace(varied=varied, groups=groups), trials=trials))  # type: ignore[arg-type]
    errors = [trace.error_y for trace in chart.figure.data]
    return [list(zip(error.arrayminus, error.array, strict=True)) for error in errors]


def table(replicates: int, **levels: list[int]) -> pd.DataFrame:
    """Trials of all combinations, each replicate a little slower than the one before."""
    cells = pd.MultiIndex.from_product(levels.values(), names=list(levels)).to_frame(index=False)
    frame = pd.concat([cells.assign(t_iter=0.010 + 0.001 * at) for at in range(replicates)], ignore_index=True)
    return frame.assign(status="ok")


def test_fewer_than_six_trials_have_no_bar() -> None:
    short, long = bars(table(2, batch_size=[8, 16], workers=[1, 2, 4]), ["batch_size", "workers"], [])
    assert short == [(pytest.approx(0.5), pytest.approx(0.5))] * 2  # six trials: all of them
    assert long == [(0.0, 0.0)] * 3


def test_levels_of_a_single_factor_have_the_intervals_of_the_configurations() -> None:
    group = SimpleNamespace(factors={"workers": 1}, t_iter=SimpleNamespace(median=0.011, ends=(0.008, 0.014)))
    alone = SimpleNamespace(factors={"workers": 2}, t_iter=SimpleNamespace(median=0.011, ends=None))
    (panel,) = bars(table(3, workers=[1, 2]), ["workers"], [group, alone])
    assert np.array(panel) == pytest.approx(np.array([(3.0, 3.0), (0.0, 0.0)]))

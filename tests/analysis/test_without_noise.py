"""A table with one number for each configuration: no difference looks sure, and one sentence says why."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.configurations import NO_NOISE
from steplab.analysis.sentences import sentences
from steplab.analysis.study import Analysis, analyse

FACTORS = ["framework", "batch_size", "workers"]


@pytest.fixture(scope="module")
def averages() -> Analysis:
    """Averages from elsewhere: two frameworks, three batch sizes, three numbers of workers, all very different."""
    rows = [
        {"framework": framework, "batch_size": batch, "workers": n, "replicate": 0,
         "t_iter": 0.001 * batch * (2.0 if framework == "torch" else 1.0) * (1 + 0.2 * (n - 1))}
        for framework, batch, n in product(("jax", "torch"), (16, 32, 64), (1, 2, 4))
    ]  # fmt: skip
    frame = pd.DataFrame(rows).assign(status="ok", spread=0.0, drift=0.0, seconds=1.0, other_cpu_s=np.nan, reason="")
    frame["trial"] = frame.index.astype(str)
    frame["throughput"] = frame["batch_size"] * frame["workers"] / frame["t_iter"]
    return analyse(frame.assign(t_iter_low=np.nan, t_iter_high=np.nan, started=frame.index), FACTORS, 2)


def test_no_configuration_is_told_from_the_fastest(averages: Analysis) -> None:
    assert len(averages.fastest) == len(averages.groups) == 18
    assert {(group.t_iter.low, group.t_iter.high, group.t_iter.method) for group in averages.groups} == {
        (None, None, "none")
    }


def test_no_effect_framework_or_speed_up_is_sure(averages: Analysis) -> None:
    assert not averages.effects
    assert all(row.p is None for row in averages.designed.anova)
    assert not any(one.real for one in averages.frameworks)
    assert all(point.speedup.low is None for one in averages.scaling for point in one.points[1:])
    assert all(one.law.serial.low is None for one in averages.scaling)
    assert not any(cause.sure for one in averages.why for cause in one.causes)


def test_one_sentence_says_so_everywhere(averages: Analysis) -> None:
    assert averages.noise.caveat == NO_NOISE
    assert NO_NOISE in " ".join(map(str, sentences(averages)))
    short = NO_NOISE[1:].rstrip(".")
    assert short in averages.designed.error.why
    assert all(short in one.sentence for one in averages.frameworks)
    assert all("nothing tells this from noise" in one.answer for one in averages.why)


def test_efficiencies_of_averages_are_not_called_apart(averages: Analysis) -> None:
    (scaling,) = [str(one) for one in sentences(averages) if one.evidence == "scaling"]
    assert "which noise alone could make" in scaling

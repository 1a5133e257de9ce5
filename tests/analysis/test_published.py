"""The published tables of MMU, chapter 3: their S-SGD speed-ups come out, and what does not add up is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.configurations import configurations
from steplab.analysis.sentences import sentences
from steplab.analysis.study import Analysis, analyse
from steplab.analysis.unexplained import unexplained

DATA = Path(__file__).parents[2] / "docs" / "sources" / "data" / "published"
PHASES = ["t_io", "t_h2d", "t_md", "t_f", "t_b", "t_u"]


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    """Tables 3.2 (phases with one worker) and 3.3 (aggregation with several) as trials."""
    phases = pd.read_csv(DATA / "mmu_3_2_phases.csv").pivot(
        index=["network", "framework"], columns="phase", values="mean_s"
    )
    alone = phases.reset_index().assign(workers=1)
    alone["t_other"] = alone["t_iter"] - alone[PHASES].sum(axis=1)
    several = pd.read_csv(DATA / "mmu_3_3_aggregation.csv").rename(columns={"t_c_s": "t_c"})
    several = several.merge(alone[["network", "framework", *PHASES]], on=["network", "framework"])
    several["t_iter"] = several[[*PHASES, "t_c"]].sum(axis=1)
    several["t_other"] = 0.0
    rows = pd.concat([alone, several], ignore_index=True)
    rows["t_iter_phased"] = rows["t_iter_low"] = rows["t_iter_high"] = rows["t_iter"]
    constant = {"status": "ok", "replicate": 0, "batch_size": 1.0, "spread": 0.0, "drift": 0.0, "seconds": 1.0}
    return rows.assign(**constant, other_cpu_s=np.nan, threads=1)


def found(published: pd.DataFrame) -> Analysis:
    return analyse(published, ["network", "framework", "workers"])


def test_ssgd_speedups_of_the_published_tables_come_out(published: pd.DataFrame) -> None:
    rows = published.set_index(["network", "framework", "workers"])
    checked = 0
    for series in found(published).scaling:
        key = (series.factors["network"], series.factors["framework"])
        alone = rows.loc[(*key, 1), PHASES].sum()
        for point in series.points[1:]:
            exchange = rows.loc[(*key, point.workers), "t_c"]
            assert point.predicted["none"] == pytest.approx(point.workers * alone / (alone + exchange))
            checked += 1
    assert checked == 18


def test_phases_that_do_not_sum_are_named(published: pd.DataFrame) -> None:
    flagged = unexplained(configurations(published, ["network", "framework", "workers"]))
    assert [(one.factors["network"], one.factors["framework"]) for one in flagged] == [
        ("mlp", "tensorflow"),
        ("mlp", "mxnet"),
    ]
    assert (flagged[0].phases_s, flagged[0].t_iter_s) == pytest.approx((0.8448, 1.4371))
    assert flagged[1].share < 0
    assert any("do not sum to t_iter" in str(sentence) for sentence in sentences(found(published)))


def test_aggregation_is_the_published_cause(published: pd.DataFrame) -> None:
    for one in found(published).why:
        if one.factors["network"] != "mlp":
            assert one.causes[0].key == "communication"
            assert one.causes[0].share > 0.95

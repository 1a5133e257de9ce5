"""What the pages say in words holds in their stored tables: new numbers that contradict the words fail here."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import steplab
from steplab.api.reproduction.summaries import read_summary
from steplab.sources import load_source
from steplab.sources.page import claims_of

PAGES = Path(__file__).parents[2] / "docs" / "sources"


def table(name: str, of: str) -> pd.DataFrame:
    return steplab.source_table(name, of, pages=PAGES)


def verdicts(name: str) -> list[str]:
    summary = read_summary(PAGES / "data" / name / "laptop")
    return [claim.verdict for claim in claims_of(load_source(name), summary)]


def the_three(frame: pd.DataFrame, value: str, *by: str) -> pd.DataFrame:
    """A column of the frameworks of the thesis."""
    return frame.pivot_table(value, list(by), "framework")[["tensorflow", "mxnet", "chainer"]]


def test_synchronous_sgd() -> None:
    assert verdicts("ssgd-frameworks") == ["confirmed", "refuted"]
    exchange = the_three(table("ssgd-frameworks", "aggregation"), "t_c_s", "network", "workers")
    assert (exchange.idxmax(axis="columns") == "tensorflow").all()
    speedups = table("ssgd-frameworks", "speedup")
    assert (the_three(speedups, "t_alone", "network").idxmin(axis="columns") == "tensorflow").all()
    two = speedups[speedups["workers"] == 2]
    small = two[two["network"] != "lenet5"]
    near = two[two["efficiency"] > 0.9]
    assert list(zip(near["framework"], near["network"], strict=True)) == [("torch", "lenet5")]
    alike = two[two["network"] == "lenet5"].set_index("framework")["efficiency"]
    assert abs(alike["tensorflow"] / alike["chainer"] - 1) < 0.05
    assert (small["speedup"] < 1).mean() > 0.5
    factors = table("ssgd-frameworks", "imbalance")
    assert ((factors["lif_persistent"] - 1) < 0.6 * (factors["lif_iteration"] - 1)).mean() > 0.8
    published = pd.read_csv(PAGES / "data/published/mmu_3_4_imbalance.csv").replace({"cnn": "lenet5"})
    both = published.merge(factors, on=["framework", "network", "workers"], suffixes=("_published", ""))
    assert (both.query("workers == 2")["lif"] < both.query("workers == 2")["lif_published"]).mean() > 0.6
    slopes = table("ssgd-frameworks", "regression")["beta2"]
    assert (slopes > 0).any()
    assert (slopes < 0).any()


def test_tensorflow_on_a_slow_network() -> None:
    name = "tf-sync-vs-accumulate"
    assert verdicts(name) == ["confirmed"]
    nodes = table(name, "nodes").set_index(["strategy", "network", "workers"])["speedup"].sort_index()
    assert (nodes.loc["sync", :, 3] < 1).all()
    assert (nodes.loc["accumulate:4", :, 3] > 1).all()
    assert (nodes.loc["sync", "resnet50"].dropna() > nodes.loc["sync", "efficientnet_b0"].dropna()).all()
    wide = table(name, "batch").pivot_table("efficiency", ["network", "strategy"], "batch_size")
    assert (wide[16] > wide[4]).all()
    ratio, least = (table(name, "exchange").pivot_table(of, "workers", "network") for of in ("ratio", "least_s"))
    assert ratio.loc[2].between(0.8, 1).all()
    assert ratio.loc[3].between(1, 1.6).all()
    assert (least["resnet50"] > least["efficientnet_b0"]).all()
    longer = table(name, "communication")
    assert (longer["measured_s"] > 1.5 * longer["predicted_s"]).all()
    error = table(name, "models").set_index("model")["mape"]
    assert 40 < error["linear"] < 60
    assert 15 < error["quadratic"] < 25

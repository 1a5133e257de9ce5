"""A few trials of several hosts correct what a network's profile and one host predict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from steplab.core.errors import NotEnoughData
from steplab.core.trial import accumulation
from steplab.planning.network.calibrating import Seen, calibrated
from steplab.planning.network.compute import LAYOUT, Tables, measured_compute
from steplab.planning.network.profile import Profile
from steplab.planning.network.step import Calibration, Layout
from steplab.planning.network.wires import Wires

SCHEDULED = ("sync", "accumulate")


def calibration_of(one_host: Tables, profile: Profile, trials: pd.DataFrame) -> Calibration:
    """The factors on compute and wires that finished steps of several hosts tell."""
    several = trials[(trials["status"] == "ok") & (trials["kind"] == "step") & (trials["nodes"].fillna(1) > 1)]
    several = several[several["strategy"].map(lambda strategy: str(strategy).partition(":")[0] in SCHEDULED)]
    if several.empty:
        what = "there is no finished step of several hosts to calibrate with"
        raise NotEnoughData(what, hint="run one with nodes = 2 or in a cluster in a box, strategy sync or accumulate:K")
    rows = several.astype(object).where(several.notna(), None).to_dict("records")
    return calibrated([_seen(one_host, profile, {str(name): value for name, value in row.items()}) for row in rows])


def _seen(one_host: Tables, profile: Profile, row: Mapping[str, Any]) -> Seen:
    own = [name for name in one_host.factors if name not in LAYOUT and row.get(name) is not None]
    compute = measured_compute(one_host, {name: str(row[name]) for name in own})
    layout = Layout(
        int(row["workers"]), int(row["nodes"]), accumulation(str(row["strategy"])), float(row.get("bucket_mb") or 0.0),
        profile.one_machine,
    )  # fmt: skip
    low, high = row.get("t_iter_low"), row.get("t_iter_high")
    noise = 0.0 if low is None or high is None else (float(high) - float(low)) / 2 / float(row["t_iter"])
    return Seen(compute, Wires(profile, str(row.get("rate") or "")), layout, float(row["t_iter"]), noise)

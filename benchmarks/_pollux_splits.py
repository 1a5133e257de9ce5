"""Public measurements of six workloads split at borders of workers, nodes and batch: lower values train, others test.

Data: petuum/adaptdl, branch osdi21-artifact, Apache-2.0. The cuts follow one rule for all workloads: workers at a
quarter and an eighth of the largest count of `scalability`, at a half and a quarter of `placements`; nodes at the two
borders that leave at least two counts below; the batch at the middle of its values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

WORKLOADS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
CUTS = {
    "scalability": {"num_replicas": (16, 8), "num_nodes": (12, 8), "local_bsz": (None,)},
    "placements": {"num_replicas": (8, 4), "num_nodes": (3, 2), "local_bsz": (None,)},
}
# At 40 workers and more on 16 nodes, two workloads take up to twice as long as at 32; nothing up to 32 shows it.
JUMP = ("scalability", "num_replicas", 32)
COLUMNS = ["num_nodes", "num_replicas", "local_bsz"]
TARGET = "step_time"


@dataclass(frozen=True)
class PolluxSplit:
    """One table cut at one value of one column."""

    workload: str
    table: str
    column: str
    cut: float
    train: pd.DataFrame
    test: pd.DataFrame

    @property
    def kind(self) -> str:
        """What the splits of all workloads have in common."""
        return f"{self.table}, {self.column} {'lower half' if self.column == 'local_bsz' else f'<= {self.cut:g}'}"


def data_folder() -> Path:
    """Where the measurements are."""
    folder = Path(os.environ.get("STEPLAB_DATA", Path(__file__).parents[2] / "shared" / "data")) / "pollux"
    for place in (folder, Path(__file__).parents[3] / "shared" / "data" / "pollux"):
        if place.is_dir():
            return place
    sys.exit(f"the measurements are not there: {folder}; set STEPLAB_DATA to the folder that holds pollux/")


def measured(workload: str, table: str) -> pd.DataFrame:
    """A table with its counts of nodes and workers; a placement such as 134 is three nodes with 1, 3 and 4 workers."""
    rows = pd.read_csv(data_folder() / f"{workload}-{table}.csv", dtype={"placement": str})
    if "placement" in rows:
        rows["num_nodes"] = rows["placement"].str.len()
        rows["num_replicas"] = rows["placement"].map(lambda placement: sum(map(int, placement)))
    return rows[[*COLUMNS, TARGET, "sync_time"]]


def splits(cuts: dict[str, dict[str, tuple[float | None, ...]]] = CUTS) -> Iterator[PolluxSplit]:
    """Every split, the same cuts for all workloads."""
    for table, columns in cuts.items():
        for column, values in columns.items():
            for value in values:
                for workload in WORKLOADS:
                    rows = measured(workload, table)
                    yield _split(workload, table, column, value, rows)


def _split(workload: str, table: str, column: str, value: float | None, rows: pd.DataFrame) -> PolluxSplit:
    distinct = np.unique(rows[column])
    cut = float(distinct[(len(distinct) - 1) // 2]) if value is None else float(value)
    train = rows[column] <= cut
    return PolluxSplit(
        workload, table, column, cut, rows[train].reset_index(drop=True), rows[~train].reset_index(drop=True)
    )

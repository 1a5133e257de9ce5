"""Five random folds on public measurements: the readable models beside the tuned random forest.

Scalability and placements of six workloads (petuum/adaptdl, branch osdi21-artifact, Apache-2.0). A placement
has a digit for each node: its length is the number of nodes, the sum of its digits the number of replicas.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))
from _pollux_splits import WORKLOADS, data_folder
from steplab.models import load_model_class
from steplab.models.judging.selection import held_out, random_folds

MODELS = ("hybrid", "quadratic", "generic", "pmnf", "linear", "svr", "gradient-boosting", "random-forest")
COLUMNS = ("num_nodes", "num_replicas")


def table(workload: str, kind: str) -> pd.DataFrame:
    frame = pd.read_csv(data_folder() / f"{workload}-{kind}.csv", dtype={"placement": str})
    if kind == "placements":
        digits = frame["placement"]
        counts = {"num_nodes": digits.str.len(), "num_replicas": digits.map(lambda d: sum(map(int, d)))}
        frame = frame.assign(**counts)
    return frame


def scored(name: str, kind: str) -> tuple[list[float], list[float], float]:
    errors, covered, seconds = [], [], 0.0
    for workload in WORKLOADS:
        frame = table(workload, kind)
        y = frame["step_time"].to_numpy(float)
        model = load_model_class(name)(intrinsic=("local_bsz",), extrinsic=COLUMNS)
        result = held_out(model, frame, y, random_folds(len(y), None, 5))
        score = result.score(y)
        errors.append(float("nan") if score is None else score[0].mape)
        covered.append(float("nan") if score is None else 100 * score[1])
        seconds = max(seconds, result.fit_seconds)
    return errors, covered, seconds


def main() -> None:
    names = sys.argv[1:] or MODELS
    for kind in ("scalability", "placements"):
        print(f"{kind}: MAPE in per cent, 5 random folds; coverage of nominal 90 % intervals")
        print(f"{'':20}" + "".join(f"{w[:8]:>9}" for w in (*WORKLOADS, "mean", "covered", "least", "most", "fit s")))
        means = {}
        for name in names:
            errors, covered, seconds = scored(name, kind)
            means[name] = float(np.mean(errors))
            cells = (*errors, means[name], np.mean(covered), min(covered), max(covered), seconds)
            print(f"{name:20}" + "".join(f"{cell:9.1f}" for cell in cells), flush=True)
        if {"hybrid", "random-forest"} <= set(means):
            print(f"hybrid / random-forest: {means['hybrid'] / means['random-forest']:.2f}\n")


if __name__ == "__main__":
    main()

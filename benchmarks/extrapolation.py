"""Extrapolation to more workers: every model of ours and two peers on public measurements of six workloads.

Fit on num_replicas <= 16, predict 20 to 64 (data: petuum/adaptdl, branch osdi21-artifact, Apache-2.0). One
choice of settings for all six. The peers run in an environment of their own under STEPLAB_HOME/bench.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from steplab.core.errors import SteplabError
from steplab.models import load_model_class, model_names

WORKLOADS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
BIGGEST_TRAINED = 16
# They need columns that these tables do not have (load imbalance, phases).
OTHER_TABLES = ("load-imbalance", "ssgd")
PEERS = Path(__file__).with_name("_peers.py")


def data_folder() -> Path:
    folder = Path(os.environ.get("STEPLAB_DATA", Path(__file__).parents[2] / "shared" / "data")) / "pollux"
    for place in (folder, Path(__file__).parents[3] / "shared" / "data" / "pollux"):
        if place.is_dir():
            return place
    sys.exit(f"the measurements are not there: {folder}; set STEPLAB_DATA to the folder that holds pollux/")


def measured(workload: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = pd.read_csv(data_folder() / f"{workload}-scalability.csv")
    train = table["num_replicas"] <= BIGGEST_TRAINED
    return table[train].reset_index(drop=True), table[~train].reset_index(drop=True)


def mape(y: pd.Series, predicted: np.ndarray) -> float:
    return float(100 * np.mean(np.abs(predicted - y) / y))


def ours(name: str, extrinsic: tuple[str, ...]) -> tuple[list[float], float]:
    errors, slowest = [], 0.0
    for workload in WORKLOADS:
        train, test = measured(workload)
        began = time.perf_counter()
        model = load_model_class(name)(intrinsic=("local_bsz",), extrinsic=extrinsic)
        try:
            errors.append(mape(test["step_time"], model.fit(train, train["step_time"]).predict(test)))
        except SteplabError:
            errors.append(float("nan"))
        slowest = max(slowest, time.perf_counter() - began)
    return errors, slowest


def peers() -> dict[str, list[float]]:
    home = Path(os.environ.get("STEPLAB_HOME", Path.home() / ".cache" / "steplab")) / "bench"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        wanted = ["extrap==4.2.5", "pandas", "scipy"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--quiet", *wanted], check=True)
    told = subprocess.run([python, PEERS, data_folder()], capture_output=True, text=True)
    if told.returncode:
        print(f"the peers could not be run: {told.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return {}
    return json.loads(told.stdout)


def line(name: str, errors: list[float], seconds: float | None = None) -> str:
    cells = "".join(f"{error:9.1f}" for error in errors)
    tail = "" if seconds is None else f"{seconds:9.1f}"
    return f"{name:30}{cells}{np.mean(errors):9.2f}{np.median(errors):9.2f}{np.max(errors):9.1f}{tail}"


def main() -> None:
    names = sys.argv[1:] or [name for name in model_names() if name not in OTHER_TABLES]
    head = "".join(f"{name[:8]:>9}" for name in (*WORKLOADS, "mean", "median", "worst", "slowest s"))
    print("MAPE in per cent, fit on num_replicas <= 16, predict 20 to 64 (* readable)\n" + f"{'':30}{head}")
    best = ("", np.inf)
    for name in names:
        for extrinsic in (("num_nodes", "num_replicas"), ("num_replicas",)):
            errors, seconds = ours(name, extrinsic)
            readable = not load_model_class(name).without_formula
            label = f"{name}{'*' if readable else ''}{'' if len(extrinsic) > 1 else ', no nodes'}"
            print(line(label, errors, seconds), flush=True)
            if readable and np.mean(errors) < best[1]:
                best = (label, float(np.mean(errors)))
    for name, errors in peers().items():
        print(line(f"peer: {name}", errors))
        print(f"{'':30}mean error of {best[0]} is {best[1] / np.mean(errors):.2f} of it")


if __name__ == "__main__":
    main()

"""The peers of the extrapolation benchmark; runs inside its environment and prints a line of JSON for each answer."""

import contextlib
import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares


def extra_p(train, test):
    """Extra-P's multi-parameter modeler, median of the repetitions, on workers and batch."""
    from extrap.entities.coordinate import Coordinate
    from extrap.entities.measurement import Measurement
    from extrap.modelers.multi_parameter.multi_parameter_modeler import MultiParameterModeler

    grouped = train.groupby(["num_replicas", "local_bsz"])["step_time"]
    points = [Measurement(Coordinate(*key), None, None, list(values)) for key, values in grouped]
    modeler = MultiParameterModeler()
    with contextlib.redirect_stdout(io.StringIO()):
        model = modeler.create_model(points)
    columns = [test[name].to_numpy(float) for name in ("num_replicas", "local_bsz")]
    value = model.hypothesis.function.evaluate(np.array(columns))
    return np.broadcast_to(value, len(test)).astype(float)


def pollux_form(theta, nodes, replicas, batch):
    """Step time as in the Pollux paper (Qiao and others, OSDI 2021): gradient time, sync time, overlap.

    T_grad = a_c + b_c·m;  T_sync = 0 for one replica, a_l + b_l·max(K-2, 0) within a node,
    a_n + b_n·max(K-2, 0) across nodes;  T_iter = (T_grad^g + T_sync^g)^(1/g), 1 <= g <= 10.
    """
    a_c, b_c, a_n, b_n, a_l, b_l = np.exp(theta[:6])
    g = theta[6]
    beyond = np.maximum(replicas - 2, 0)
    sync = np.where(nodes > 1, a_n + b_n * beyond, a_l + b_l * beyond) * (replicas > 1)
    grad = a_c + b_c * batch
    return grad, sync, (grad**g + sync**g) ** (1 / g)


def adaptdl_form(train, test):
    """The published form fitted as AdaptDL does: log errors of step time and of its gradient part."""
    columns = ["num_nodes", "num_replicas", "local_bsz"]
    at = [train[name].to_numpy(float) for name in columns]
    y, grad_seen = train["step_time"].to_numpy(), (train["step_time"] - train["sync_time"]).to_numpy()
    grad_seen = np.maximum(grad_seen, 1e-3 * y)

    def residuals(theta):
        grad, _, total = pollux_form(theta, *at)
        first = np.log(total) - np.log(y)
        second = np.log(grad) - np.log(grad_seen)
        return np.concatenate([first, second, [1e-3 * (theta[6] - 1)]])

    scale = np.log(np.median(y))
    start = np.array([scale - 1, scale - 1 - np.log(np.median(at[2])), *[scale - 2, scale - 5] * 2, 1.5])
    low, high = np.r_[np.full(6, -25.0), 1.0], np.r_[np.full(6, 10.0), 10.0]
    found = least_squares(residuals, start, bounds=(low, high), max_nfev=2000)
    return pollux_form(found.x, *[test[name].to_numpy(float) for name in columns])[2]


def main():
    if len(sys.argv) < 2:
        print("extrapolation.py runs this file in the benchmark environment")
        return
    folder = Path(sys.argv[1])
    methods = {"Extra-P 4.2.5": extra_p, "AdaptDL's published form": adaptdl_form}
    for at in range(len(list(folder.glob("*-train.csv")))):
        train, test = (pd.read_csv(folder / f"{at}-{part}.csv") for part in ("train", "test"))
        y = test["step_time"].to_numpy()
        for name, method in methods.items():
            began = time.process_time()
            mape = float(100 * np.mean(np.abs(method(train, test) - y) / y))
            seconds = time.process_time() - began
            print(json.dumps({"split": at, "model": name, "mape": mape, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()

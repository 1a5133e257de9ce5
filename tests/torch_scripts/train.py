"""Trains networks for some steps on generated data sets and gives the losses; reads a list of jobs."""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np


def samples(dataset, count, shrink):
    """Samples of a generated data set, volumes shrunk by averaging blocks."""
    from steplab_worker import data

    with tempfile.TemporaryDirectory() as folder:
        data.make(folder, dataset, count, 5)
        x, y = data.open_split(folder, dataset, "train").read(np.arange(count))
    for axis in range(2, x.ndim):
        parts = (*x.shape[:axis], x.shape[axis] // shrink, shrink, *x.shape[axis + 1 :])
        x = x.reshape(parts).mean(axis + 1)
    return x, y


def train(network, dataset, count, steps, batch, rate, shrink=1, options=None):
    import torch
    from torch.nn import functional

    from steplab_worker import networks
    from steplab_worker.adapters.torch.layers import build_module
    from steplab_worker.weights import initial_weights

    torch.manual_seed(0)
    x, y = (torch.from_numpy(array) for array in samples(dataset, count, shrink))
    graph = networks.build(network, options, input_shape=tuple(x.shape[1:]), classes=int(y.max()) + 1)
    module = build_module(graph, initial_weights(graph, seed=2)).train()
    optimizer = torch.optim.SGD(module.parameters(), lr=rate, momentum=0.9)
    losses = []
    for step in range(steps):
        chosen = torch.arange(step * batch, (step + 1) * batch) % len(x)
        output = module(x[chosen])
        if graph.loss == "reconstruction":
            loss = functional.mse_loss(output, x[chosen].flatten(1))
        else:
            loss = functional.cross_entropy(output, y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    made = [train(**job) for job in json.load(sys.stdin)]
    Path(sys.argv[1]).write_text(json.dumps(made))


if __name__ == "__main__":
    main()

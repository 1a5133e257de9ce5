"""Gives a framework's inference outputs: `python outputs.py FRAMEWORK ANSWER.npz < jobs.json`, in its environment.

A job: network, options, shape, batch, seed; for Velox also formulation and operand_bytes, for ONNX Runtime
optimization.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

import numpy as np

from steplab_worker import networks
from steplab_worker.graph import Builder
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.placement import Placement
from steplab_worker.rendezvous import Rendezvous
from steplab_worker.weights import initial_weights


def pieces_2d(shape):
    """The kinds of layers that the small networks leave out, in two dimensions."""
    net = Builder("pieces", shape)
    first = net.conv("grouped", 8, (3, 2), stride=(2, 1), padding=[[1, 0], [0, 2]], groups=2)
    net.add("max_pool", "most", kernel=3, stride=2, padding=1)
    most = net.activation("silu", "silu")
    net.add("avg_pool", "mean", inputs=first, kernel=3, stride=2, padding=1)
    net.add("scale", "scale", initial=0.7)
    net.add("dropout", "dropout", rate=0.5)
    net.add("concat", "concat", [most, net.last, most])
    both = net.add("upsample", "upsample", factor=(2, 1))
    gate = net.add("global_avg_pool", "pool")
    net.activation("gate", "sigmoid")
    net.add("multiply", "squeeze", [both, net.last])
    net.add("add", "twice", [net.last, both, both])
    net.add("adaptive_avg_pool", "adaptive", outputs=(3, 2))
    net.add("reshape", "reshape", shape=(12, 12))
    net.add("flatten", "flatten")
    net.dense("dense", 24, bias=False)
    net.add("multiply", "weighted", [net.last, gate])
    net.dense("last", 5)
    return net.graph()


def pieces_3d(shape):
    """A convolution, normalisation and pooling in three dimensions."""
    net = Builder("volume", shape)
    net.conv_norm("conv", 4, 3, stride=2, activation="relu")
    net.add("max_pool", "pool", kernel=2)
    net.add("flatten", "flatten")
    net.dense("dense", 3)
    return net.graph()


def graph_of(job):
    shape = tuple(job["shape"])
    if job["network"] == "pieces":
        return pieces_2d(shape) if len(shape) == 3 else pieces_3d(shape)
    options = {name: option.default for name, option in networks.module(job["network"]).OPTIONS.items()}
    return networks.build(job["network"], dict(options, **job.get("options", {})), shape, 10)


def weights_of(graph, seed):
    """Initial weights, but with normalisation that does something."""
    weights, generator = initial_weights(graph, seed), np.random.default_rng(seed)
    for layer in graph.layers:
        if layer.kind in ("batch_norm", "layer_norm"):
            for name in [*layer.weights, *layer.buffers]:
                key, low = (layer.name, name), 0.5 if name in ("weight", "variance") else -0.5
                weights[key] = (low + generator.random(weights[key].shape)).astype(np.float32)
    return weights


def trial_job(job, options):
    known = {"trial": "t", "replicate": 0, "kind": "infer", "config": {}, "network": job["network"]}
    known.update(network_options={}, input_shape=tuple(job["shape"]), classes=10, dataset="", data_folder="")
    known.update(batch_size=job["batch"], accumulate=1, strategy="sync", optimizer="sgd", learning_rate=0.01)
    known.update(loader_workers=0, prefetch=2, options=options, phases=False, memory_limit_bytes=0, seed=job["seed"])
    return TrialJob(learns=False, **known)


def answer(adapter, framework, job):
    """Outputs of a first batch, and of a second one of one sample more."""
    options = {
        "torch": {"compile": False, "bucket_mb": 0.0},
        "velox": {"formulation": job.get("formulation")},
        "onnxruntime": {"optimization": job.get("optimization", "all")},
    }[framework]
    graph = graph_of(job)
    session = adapter.session(trial_job(job, options), graph, weights_of(graph, job["seed"]))
    generator, given = np.random.default_rng(job["seed"]), []
    for samples in (job["batch"], job["batch"], job["batch"] + 1)[: job.get("batches", 1)]:
        batch = samples_of(graph, samples, generator)
        session.load((batch, np.zeros(samples, np.int64)))
        session.infer()
        given.append(session.outputs())
    return np.concatenate(given)


def samples_of(graph, samples, generator):
    shape, first = (samples, *graph.input_shape), graph.layers[0]
    if first.kind == "embedding":
        return generator.integers(0, first.options["tokens"], shape, dtype=np.int32)
    return generator.random(shape, dtype=np.float32)


def main():
    framework, path = sys.argv[1:]
    module = importlib.import_module("steplab_worker.adapters." + framework)
    group = GroupJob(framework, 0, 1, 1, (Placement("here", 0, "127.0.0.1"),))
    adapter = module.Adapter(group, Rendezvous(group, None))
    given = {}
    for name, job in json.load(sys.stdin).items():
        if framework == "velox":
            from steplab_worker.adapters.velox import network

            network.OPERAND_BYTES = job.get("operand_bytes", 64 << 20)
        given[name] = answer(adapter, framework, job)
    np.savez(path, **given)
    sys.stdout.flush()
    os._exit(0)  # as a rank does: the exit handlers of Velox may abort


if __name__ == "__main__":
    main()

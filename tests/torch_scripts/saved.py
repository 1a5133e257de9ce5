"""Bytes that PyTorch keeps for backward, by its hooks for saved tensors.

Reads [[name, options, shape, batch, precision], …].
"""

import json
import os
import sys
from pathlib import Path

from steplab_worker import amx


def kept(name, options, shape, batch, precision):
    import torch

    from steplab_worker import networks
    from steplab_worker.adapters.torch import _criterion
    from steplab_worker.adapters.torch.layers import build_module

    graph = networks.build(name, options, shape, classes=10)
    module = build_module(graph, {}).train()
    own = {one.untyped_storage().data_ptr() for one in [*module.parameters(), *module.buffers()]}
    samples, labels = torch.rand(batch, *graph.input_shape), torch.zeros(batch, dtype=torch.long)
    if graph.layers[0].kind == "embedding":
        samples, labels = samples.int(), torch.zeros(samples.shape, dtype=torch.long)
    held = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    lower = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16")
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), lower:
        loss = _criterion(graph.loss)(module(samples), samples, labels)
    assert loss.requires_grad  # it lives until here, so no two arrays had the same place
    return sum(held.values())


def main():
    os.environ.update(amx.keep_off(amx.state()))  # before torch is imported
    Path(sys.argv[1]).write_text(json.dumps([kept(*case) for case in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()

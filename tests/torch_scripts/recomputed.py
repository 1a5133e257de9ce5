"""What PyTorch holds after a forward pass, and the FLOPs of both passes; reads [[name, options, shape, batch, …], …].

The last of each case is whether blocks are recomputed. Bytes are those that PyTorch's allocator gave and did not get
back, so that they hold what a block notes as well as what hooks for saved tensors see.
"""

import json
import sys
from pathlib import Path

KEPT = []  # nothing of one case may be freed while the next is measured


def measure(name, options, shape, batch, recompute):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from steplab_worker import networks
    from steplab_worker.adapters.torch import _criterion
    from steplab_worker.adapters.torch.blocks import BlockwiseModule
    from steplab_worker.adapters.torch.layers import GraphModule

    graph = networks.build(name, options, shape, classes=10)
    module = (BlockwiseModule(graph, recompute=True) if recompute else GraphModule(graph)).train()
    samples, labels = torch.rand(batch, *graph.input_shape), torch.zeros(batch, dtype=torch.long)
    if graph.layers[0].kind == "embedding":
        samples, labels = samples.int(), torch.zeros(samples.shape, dtype=torch.long)
    criterion = _criterion(graph.loss)
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss = criterion(module(samples), samples, labels)
    moved = sum(event.nbytes() for event in profile.profiler.kineto_results.events() if event.name() == "[memory]")
    # Unfused attention is made of matrix products that the counter sees.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        criterion(module(samples), samples, labels).backward()
    KEPT.append((module, samples, labels, loss))
    before = samples.nbytes + labels.nbytes  # made before the profiler looked
    return {"bytes": moved + before - loss.nbytes, "flops": counter.get_total_flops()}


def main():
    Path(sys.argv[1]).write_text(json.dumps([measure(*case) for case in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()

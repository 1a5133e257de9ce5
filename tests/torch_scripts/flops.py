"""Runs networks in PyTorch and counts with FlopCounterMode; reads [[name, input shape, batch, device], …]."""

import json
import sys
from pathlib import Path


def counted(module, x, backend):
    """FLOPs of the forward pass, of both passes, and the shape of the output."""
    from torch.nn.attention import sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, sdpa_kernel(backend):
        y = module(x)
        forward = counter.get_total_flops()
        y.square().mean().backward()
    return forward, counter.get_total_flops(), list(y.shape)


def measure(name, shape, batch, device, file=""):
    import torch
    from torch.nn.attention import SDPBackend

    from steplab_worker import networks
    from steplab_worker.adapters.torch.layers import build_module
    from steplab_worker.weights import initial_weights

    graph = networks.build(name, input_shape=shape, file=file)
    with torch.device(device):  # on `meta` no weight is made
        module = build_module(graph, {} if device == "meta" else initial_weights(graph, seed=1))
    x = torch.rand((batch, *graph.input_shape), device=device)
    if graph.layers[0].kind == "embedding":
        x = x.long()
    # Unfused attention is made of matrix products that the counter sees.
    forward, both, output = counted(module, x, SDPBackend.MATH)
    parameters = sum(p.numel() for p in module.parameters())
    return {"forward": forward, "both": both, "parameters": parameters, "output": output}


def fused_attention(channels, positions, heads, batch):
    import torch
    from torch.nn.attention import SDPBackend

    from steplab_worker.adapters.torch.layers import Attention

    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = Attention(heads, channels**-0.5)

        def forward(self, x):
            return self.attention(x, x, x)

    x = torch.rand((batch, channels, positions), requires_grad=True)
    backends = {"fused": SDPBackend.FLASH_ATTENTION, "plain": SDPBackend.MATH}
    return {key: counted(Mixed(), x, backend)[:2] for key, backend in backends.items()}


def main():
    job = json.load(sys.stdin)
    made = {"networks": [measure(*one) for one in job["networks"]]}
    if "attention" in job:
        made["attention"] = fused_attention(**job["attention"])
    Path(sys.argv[1]).write_text(json.dumps(made))


if __name__ == "__main__":
    main()

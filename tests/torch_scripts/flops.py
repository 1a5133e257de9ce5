"""Runs networks in PyTorch and counts with FlopCounterMode; reads [[name, input shape, batch, device], …]."""

import json
import sys
from pathlib import Path


def counted(module, x, backward, backend):
    from torch.nn.attention import sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, sdpa_kernel(backend):
        y = module(x)
        if backward:
            y.square().mean().backward()
    return counter.get_total_flops()


def measure(name, shape, batch, device):
    import torch
    from torch.nn.attention import SDPBackend

    from steplab_worker import networks
    from steplab_worker.adapters._torch_layers import build_module
    from steplab_worker.weights import initial_weights

    graph = networks.build(name, input_shape=shape)
    module = build_module(graph, initial_weights(graph, seed=1)).to(device)
    x = torch.rand((batch, *shape), device=device)
    # Unfused attention is made of matrix products that the counter sees.
    forward, both = (counted(module, x, backward, SDPBackend.MATH) for backward in (False, True))
    parameters = sum(p.numel() for p in module.parameters())
    with torch.no_grad():
        output = list(module(x).shape)
    return {"forward": forward, "both": both, "parameters": parameters, "output": output}


def fused_attention(channels, positions, heads, batch):
    import torch
    from torch.nn.attention import SDPBackend

    from steplab_worker.adapters._torch_layers import Attention

    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = Attention(heads, channels**-0.5)

        def forward(self, x):
            return self.attention(x, x, x)

    x = torch.rand((batch, channels, positions), requires_grad=True)
    backends = {"fused": SDPBackend.FLASH_ATTENTION, "plain": SDPBackend.MATH}
    return {key: [counted(Mixed(), x, both, backend) for both in (False, True)] for key, backend in backends.items()}


def main():
    job = json.load(sys.stdin)
    made = {"networks": [measure(*one) for one in job["networks"]]}
    if "attention" in job:
        made["attention"] = fused_attention(**job["attention"])
    Path(sys.argv[1]).write_text(json.dumps(made))


if __name__ == "__main__":
    main()

"""What a rank tells of torch.compile: trials of the same code in one process, the first with several batch sizes."""

import json
import sys
from dataclasses import asdict
from pathlib import Path


def trial(sizes):
    import torch

    from steplab_worker.adapters.torch import compilation

    compilation.begin()
    # Tracing and guards are PyTorch's own; what would turn the graph into machine code is left out.
    net = torch.compile(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), backend="eager")
    for size in sizes:
        net(torch.rand(size, 8)).sum().backward()
    return asdict(compilation.compiled())


def main():
    Path(sys.argv[1]).write_text(json.dumps([trial(sizes) for sizes in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()

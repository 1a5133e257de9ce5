"""What PyTorch has in memory: its tensors, and the counters of its allocator on a GPU.

A tensor that is divided among ranks is told by what it can do (`to_local`, `full_tensor`): only sharded trials import
the package that divides them, which older versions of PyTorch do not have.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator

import torch

from steplab_worker.messages import Held


def held(module: torch.nn.Module, optimizer: Any, device: torch.device) -> Held:
    """The bytes of this rank's parameters and of the optimiser's state; on a GPU the most that there was at once."""
    peak, reserved = None, None
    if device.type == "cuda":
        peak, reserved = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    state = (value for values in optimizer.state.values() for value in values.values())
    return Held(_bytes(module.parameters()), _bytes(state), peak, reserved)


def forget_peaks(device: torch.device) -> None:
    """Let the counters of a GPU begin anew with this trial; of a CPU there are none."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _bytes(values: Iterable[Any]) -> float:
    return float(sum(tensor.nbytes for tensor in _own(values)))


def _own(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among values; of those that are divided among ranks, this one's part."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value.to_local() if hasattr(value, "to_local") else value


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor, of which this rank may have a part; then all ranks must ask for it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor

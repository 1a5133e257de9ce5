"""Sharded training in PyTorch: FSDP2 (`fully_shard`) block by block; every rank keeps its part of all parameters.

S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020, stage 3. The
parameters of a block are gathered before it runs, in both passes, and given up after; its gradients are summed and
scattered as soon as they are there. What belongs to no block is gathered once, for the whole step.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather, DefaultReduceScatter

from steplab_worker.adapter import Within
from steplab_worker.adapters.torch.blocks import BlockwiseModule


def shard(module: BlockwiseModule, device: torch.device) -> nn.Module:
    """The same module with its parameters divided among all ranks; an optimiser has to be made after that."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for block in module.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


class ShardClock:
    """Times the all-gathers and reduce-scatters of a module on CPUs, where each returns when it is done.

    So nothing hides them: what is in flight is exposed. While `meets` is set all ranks begin each one together, which
    tells waiting for the slowest from moving.
    """

    def __init__(self, module: nn.Module):
        self.meets = False
        self.waited, self.moving, self.meetings = 0.0, 0.0, 0
        self.moved: Dict[str, int] = {"all_gather": 0, "reduce_scatter": 0}  # bytes of what is whole at one end
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.set_custom_all_gather(_timed(self, DefaultAllGather, "all_gather"))
                part.set_custom_reduce_scatter(_timed(self, DefaultReduceScatter, "reduce_scatter"))

    def within(self) -> Within:
        """What the collectives since the last time took; forget it."""
        within = Within(self.waited, self.moving, self.meetings)
        self.waited, self.moving, self.meetings = 0.0, 0.0, 0
        return within

    def take(self) -> Tuple[float, float]:
        """Seconds of the last step with a collective in flight, and those in which this rank waited for it."""
        seconds = self.within().moving
        return seconds, seconds


def _timed(clock: ShardClock, default: Any, name: str) -> Any:
    """FSDP's own collective, timed."""

    class Timed(default):
        def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, *rest: Any, **more: Any) -> Any:
            start = time.perf_counter()
            if clock.meets:
                dist.barrier()
                clock.meetings += 1
            met = time.perf_counter()
            work = super().__call__(output_tensor, input_tensor, *rest, **more)
            clock.waited += met - start
            clock.moving += time.perf_counter() - met
            clock.moved[name] += max(output_tensor.nbytes, input_tensor.nbytes)
            return work

    return Timed()

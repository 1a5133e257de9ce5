"""DDP's buckets, by hand: how gradients are grouped, and how the groups are averaged over the ranks."""

from __future__ import annotations

from typing import List

import torch
import torch.distributed as dist

# Where DDP is not told a size: a small first bucket can leave early.
FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20


def buckets(tensors: List[torch.Tensor], size_mb: float) -> List[List[torch.Tensor]]:
    """Tensors in order, grouped as DDP groups them: a bucket is full as soon as it has reached its size."""
    limits = [size_mb * 2**20] if size_mb else [FIRST_BUCKET_BYTES, BUCKET_BYTES]
    groups: List[List[torch.Tensor]] = []
    held, limit = 0.0, 0.0
    for tensor in tensors:
        if held >= limit:
            limit = limits[min(len(groups), len(limits) - 1)]
            held = 0.0
            groups.append([])
        groups[-1].append(tensor)
        held += tensor.numel() * tensor.element_size()
    return groups


def average(groups: List[List[torch.Tensor]], workers: int) -> None:
    """Average all buckets over the ranks; like DDP, copy each, begin its exchange, and wait when all are under way."""
    flats = [torch.cat([tensor.reshape(-1) for tensor in bucket]).div_(workers) for bucket in groups]
    for work in [dist.all_reduce(flat, async_op=True) for flat in flats]:
        work.wait()
    for bucket, flat in zip(groups, flats):
        for tensor, part in zip(bucket, flat.split([tensor.numel() for tensor in bucket])):
            tensor.copy_(part.view_as(tensor))

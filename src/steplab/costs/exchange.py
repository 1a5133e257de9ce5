"""What workers send each other in a step: gradients that are averaged, or parts of parameters and gradients.

Of N workers, each sends 2·(N − 1)/N of the bytes of an all-reduce, (N − 1)/N of those of an all-gather or a
reduce-scatter (R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
IJHPCA 19(1), 2005), whatever the algorithm: less cannot do. Sharded training gathers parameters for forward and again
for backward, and scatters gradients (S. Rajbhandari et al., "ZeRO", SC 2020, stage 3: one and a half times as much as
an all-reduce).
"""

from __future__ import annotations

from dataclasses import dataclass

from steplab.costs.network import BYTES, NetworkCost
from steplab.costs.operation import Workload


@dataclass(frozen=True)
class StepExchange:
    """The bytes of a step's collectives, of each as one worker sees it whole, and what one worker sends."""

    strategy: str
    workers: int
    all_reduce_bytes: int = 0
    all_gather_bytes: int = 0
    reduce_scatter_bytes: int = 0

    @property
    def sent_bytes(self) -> float:
        """What each worker sends, at least."""
        shares = 2 * self.all_reduce_bytes + self.all_gather_bytes + self.reduce_scatter_bytes
        return shares * (self.workers - 1) / self.workers


def step_exchange(counted: NetworkCost, workload: Workload, strategy: str, workers: int) -> StepExchange:
    """What a step exchanges with the strategy `sync` or `sharded`.

    >>> from steplab.costs.builtin import builtin
    >>> from steplab.costs.network import cost
    >>> lenet5 = builtin("lenet5")
    >>> step_exchange(cost(lenet5), lenet5, "sync", 2).sent_bytes == 4 * 61706
    True
    """
    if workers == 1:
        return StepExchange(strategy, workers)
    if strategy == "sync":
        return StepExchange(strategy, workers, all_reduce_bytes=counted.gradient_bytes)
    parts = block_parameters(counted, workload)
    blocks = sum(bytes_ for block, bytes_ in parts.items() if block)
    # What belongs to no block stays whole from forward to backward.
    return StepExchange(
        strategy, workers, all_gather_bytes=counted.gradient_bytes + blocks, reduce_scatter_bytes=counted.gradient_bytes
    )


def block_parameters(counted: NetworkCost, workload: Workload) -> dict[str, int]:
    """The bytes of each block's parameters; those of no block have an empty name."""
    blocks = {op.name: op.block for op in workload.operations}
    parts: dict[str, int] = {}
    for layer in counted.layers:
        parts[blocks[layer.name]] = parts.get(blocks[layer.name], 0) + BYTES * layer.parameters
    return parts

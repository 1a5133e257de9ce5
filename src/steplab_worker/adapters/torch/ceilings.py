"""How fast this machine can compute and move bytes, seen through PyTorch: the roofs of its own kernels.

A helper; what it does is in `steplab_worker.ceilings`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Optional

import torch

from steplab_worker.ceilings import Kernel, serve

READ_ELEMENTS = 4000000  # that one call reads at least; less and the call itself would be measured


class TorchKernels:
    """PyTorch's matrix product (MKL or oneDNN) and its element-wise loops, on the CPU."""

    def about(self) -> str:
        """What the ceilings are seen through."""
        return "PyTorch %s" % torch.__version__

    def set_threads(self, threads: int) -> None:
        """Use so many threads from now on."""
        torch.set_num_threads(threads)

    @lru_cache(maxsize=None)  # noqa: B019 - there is one of it, and large arrays serve all thread counts
    def sgemm(self, n: int) -> Kernel:
        """A float32 matrix product, 2·n³ FLOPs."""
        a, b, c = (torch.ones(n, n) for _ in range(3))
        return lambda: torch.mm(a, b, out=c), 2.0 * n**3

    @lru_cache(maxsize=None)  # noqa: B019
    def bgemm(self, n: int) -> Kernel:
        """The same of bfloat16 matrices; what autocast casts before and after is not in it."""
        a, b, c = (torch.ones(n, n, dtype=torch.bfloat16) for _ in range(3))
        return lambda: torch.mm(a, b, out=c), 2.0 * n**3

    @lru_cache(maxsize=None)  # noqa: B019
    def triad(self, n: int) -> Kernel:
        """A = b + s·c over n elements; besides three arrays the lines of `a` are fetched before they are written."""
        a, b, c = (torch.ones(n) for _ in range(3))
        return lambda: torch.add(b, c, alpha=3.0, out=a), 16.0 * n

    @lru_cache(maxsize=None)  # noqa: B019
    def read(self, n: int) -> Optional[Kernel]:
        """The sum over n elements, read again and again in one call."""
        times = max(1, READ_ELEMENTS // n)
        values = torch.ones(n).expand(times, n)
        return lambda: torch.sum(values), 4.0 * n * times


def main() -> None:
    """Measure through PyTorch."""
    torch.set_grad_enabled(False)
    serve(TorchKernels())

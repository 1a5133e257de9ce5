"""GPU kernels as a profiler counted them, placed under the roofs of a machine file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steplab.analysis.roofline.points import RooflinePoint
from steplab.costs.roofs import MEMORY, Ceiling, limit_of
from steplab.store.foreign.ncu import Kernel


def summed(kernels: Iterable[Kernel]) -> list[Kernel]:
    """The launches of each kernel as one, the longest first; what one launch does not say, the sum does not say."""
    groups: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(kernel.name, []).append(kernel)
    sums = [_sum(launches) for launches in groups.values()]
    return sorted(sums, key=lambda kernel: -(kernel.seconds or 0.0))


def _sum(launches: Sequence[Kernel]) -> Kernel:
    return Kernel(
        launches[0].name,
        sum(launch.flops for launch in launches),
        _whole([launch.dram_bytes for launch in launches]),
        _whole([launch.l2_bytes for launch in launches]),
        _whole([launch.l1_bytes for launch in launches]),
        _whole([launch.seconds for launch in launches]),
        sum(launch.tensor_flops for launch in launches),
    )


def _whole(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def kernel_points(kernels: Iterable[Kernel], ceiling: Ceiling) -> list[RooflinePoint]:
    """The kernels that have FLOPs and bytes; the bytes are counted ones, so no cache is guessed at."""
    points = []
    for kernel in kernels:
        if kernel.flops and kernel.dram_bytes:
            known = {MEMORY: kernel.dram_bytes, "L2": kernel.l2_bytes, "L1": kernel.l1_bytes}
            best = limit_of(kernel.flops, {name: value for name, value in known.items() if value is not None}, ceiling)
            points.append(
                RooflinePoint(
                    kernel.name, "kernel", "kernel", kernel.flops, kernel.dram_bytes, kernel.seconds,
                    best.flops_per_s, best.roof, best.bound,
                )
            )  # fmt: skip
    return points

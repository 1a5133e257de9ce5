"""GPU kernels as a profiler counted them, placed under the roofs of a machine file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steplab.analysis.roofline.points import RooflinePoint
from steplab.costs.roofs import MEMORY, Ceiling, limit_of
from steplab.store.foreign.ncu import Kernel


def summed(kernels: Iterable[Kernel]) -> list[Kernel]:
    """The launches of each kernel as one, the longest first; what one launch does not say, the sum does not say."""
    groups: dict[str, list[Kernel]] = {}
    for one in kernels:
        groups.setdefault(one.name, []).append(one)
    made = [_sum(launches) for launches in groups.values()]
    return sorted(made, key=lambda one: -(one.seconds or 0.0))


def _sum(launches: Sequence[Kernel]) -> Kernel:
    return Kernel(
        launches[0].name,
        sum(one.flops for one in launches),
        _whole([one.dram_bytes for one in launches]),
        _whole([one.l2_bytes for one in launches]),
        _whole([one.l1_bytes for one in launches]),
        _whole([one.seconds for one in launches]),
        sum(one.tensor_flops for one in launches),
    )


def _whole(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def kernel_points(kernels: Iterable[Kernel], ceiling: Ceiling) -> list[RooflinePoint]:
    """The kernels that have FLOPs and bytes; the bytes are counted ones, so no cache is guessed at."""
    made = []
    for one in kernels:
        if one.flops and one.dram_bytes:
            known = {MEMORY: one.dram_bytes, "L2": one.l2_bytes, "L1": one.l1_bytes}
            best = limit_of(one.flops, {name: value for name, value in known.items() if value is not None}, ceiling)
            made.append(
                RooflinePoint(
                    one.name, "kernel", "kernel", one.flops, one.dram_bytes, one.seconds, best.flops_per_s, best.roof,
                    best.bound,
                )
            )  # fmt: skip
    return made

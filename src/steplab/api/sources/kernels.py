"""Kernels that Nsight Compute profiled, on the roofline of their GPU."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from steplab.analysis.roofline.kernels import kernel_points, summed
from steplab.analysis.roofline.points import Roofline, RooflinePoint
from steplab.api import display
from steplab.api.results.roofline_page import write_page
from steplab.api.results.roofline_words import document
from steplab.core.errors import InputError, allowed
from steplab.core.units import count, size
from steplab.costs.machine_file import read_machine
from steplab.costs.roofs import Ceilings
from steplab.store.foreign.ncu import Kernel, read_ncu
from steplab.store.records import write_file

__all__ = ["Kernel", "ProfiledKernels", "RooflinePoint", "check_out", "import_ncu"]


@dataclass(frozen=True, repr=False)
class ProfiledKernels:
    """The kernels of a profile, their launches summed; with roofs, where they stand below them."""

    file: Path
    launches: int
    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...]
    ceilings: Ceilings | None = None
    roofline: Roofline | None = None

    @property
    def flops(self) -> float:
        """The FLOPs of all kernels."""
        return sum(kernel.flops for kernel in self.kernels)

    def document(self) -> dict[str, Any]:
        """What `steplab import ncu --json` prints."""
        nothing = {"ceilings": [], "points": [], "notes": list(self.notes)}
        drawn = document(self.ceilings, [self.roofline]) if self.ceilings and self.roofline else nothing
        kernels = [asdict(kernel) for kernel in self.kernels]
        return {"file": str(self.file), "flops": self.flops, "launches": self.launches, "kernels": kernels, **drawn}

    def write(self, path: Path | str) -> None:
        """Write the kernels as FILE.json, or their chart as FILE.html."""
        out = Path(path)
        check_out(out, charted=self.roofline is not None)
        if out.suffix == ".html" and self.roofline is not None:
            write_page(out, [self.roofline])
            return
        write_file(out, orjson.dumps(self.document(), option=orjson.OPT_INDENT_2))

    def __repr__(self) -> str:
        return f"<{self.launches} launches of {len(self.kernels)} kernels, {count(self.flops)}FLOP>"

    def _repr_html_(self) -> str:
        rows = [
            [kernel.name, count(kernel.flops), None if kernel.dram_bytes is None else size(kernel.dram_bytes)]
            for kernel in self.kernels
        ]
        return display.block(display.title(repr(self)[1:-1]), display.table(("kernel", "FLOPs", "bytes"), rows))


def check_out(out: Path, *, charted: bool) -> None:
    """Say what is wrong with the name of a file to write; a chart needs roofs."""
    if out.suffix not in (".json", ".html"):
        raise InputError(f"{out.name!r} has no known ending", hint=allowed([".json", ".html"]))
    if not out.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=str(out.parent), hint="make it first")
    if out.suffix == ".html" and not charted:
        raise InputError("a chart needs roofs", where=str(out), hint="name the GPU's machine file")


def import_ncu(
    file: Path | str, machine: str = "", *, precision: str = "fp32", tensor_flops: int = 512
) -> ProfiledKernels:
    """Read the CSV of Nsight Compute, count all floating-point instructions, place the kernels on a roofline.

    Args:
        file: What `ncu --csv` printed.
        machine: The GPU's machine file: a100, rtx2080, rtx4090 or FILE.toml; without it nothing is placed.
        precision: Which peak of the machine file: fp32, fp16_tensor.
        tensor_flops: FLOPs of one matrix instruction of a warp.
    """
    roofs = read_machine(machine, precision) if machine else None
    profile = read_ncu(Path(file), tensor_flops)
    kernels, notes = tuple(summed(profile.kernels)), tuple(profile.notes)
    placed = _roofline(Path(file), kernels, notes, roofs) if roofs else None
    return ProfiledKernels(
        Path(file), len(profile.kernels), kernels, placed.notes if placed else notes, roofs, placed
    )  # fmt: skip


def _roofline(file: Path, kernels: tuple[Kernel, ...], notes: tuple[str, ...], roofs: Ceilings) -> Roofline:
    points = kernel_points(kernels, roofs.rows[0])
    if any(kernel.tensor_flops for kernel in kernels) and "tensor" not in roofs.machine:
        notes = (*notes, "some kernels use tensor cores: their roof is that of --precision tf32_tensor or fp16_tensor")
    if len(points) < len(kernels):
        notes = (*notes, f"{len(kernels) - len(points)} of {len(kernels)} kernels are not placed: no FLOPs or no bytes")
    return Roofline(file.name, roofs.machine, roofs.rows[0], tuple(points), notes)

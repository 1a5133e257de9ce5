"""`steplab import ncu`: kernels that Nsight Compute profiled, on the roofline of their GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import steplab
from steplab.cli._output import JsonOption, console, print_json, table
from steplab.core.units import count, seconds, size

if TYPE_CHECKING:
    from steplab.api.sources.kernels import Kernel, RooflinePoint

SHOWN = 20
LONGEST = 34  # characters of a kernel's name in the table


def register(app: typer.Typer) -> None:
    """Add `ncu` to the subcommands of `steplab import`."""
    app.command("ncu")(ncu)


def ncu(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="What `ncu --csv` printed.")],
    machine: Annotated[str, typer.Option(help="The GPU's machine file: a100, rtx2080, rtx4090 or FILE.toml.")] = "",
    precision: Annotated[str, typer.Option(help="Which peak of the machine file: fp32, fp16_tensor, …")] = "fp32",
    tensor_flops: Annotated[
        int, typer.Option(min=1, max=10**9, help="FLOPs of one matrix instruction of a warp.")
    ] = 512,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write kernels.json or a chart.html.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Read the CSV of Nsight Compute, count all floating-point instructions, place the kernels on a roofline.

    Example: steplab import ncu kernels.csv --machine rtx2080 --out kernels.html
    """
    from steplab.api.sources.kernels import check_out

    if out is not None:
        check_out(out, charted=bool(machine))
    profiled = steplab.import_ncu(file, machine, precision=precision, tensor_flops=tensor_flops)
    if out is not None:
        profiled.write(out)
    if as_json:
        print_json(profiled.document())
        return
    _show(profiled)
    for note in profiled.notes:
        console().print(f"note: {note}", markup=False, soft_wrap=True)
    if out is not None:
        console().print(f"written: {out.absolute()}", markup=False, soft_wrap=True)


def _show(profiled: steplab.ProfiledKernels) -> None:
    out, kernels, roofline = console(), profiled.kernels, profiled.roofline
    out.print(f"{profiled.launches} launches of {len(kernels)} kernels, {count(profiled.flops)}FLOP", markup=False)
    placed = {point.layer: point for point in roofline.points} if roofline else {}
    columns = ["kernel", "FLOPs", "bytes", "FLOP/B", "time", *(["roof", "of roof"] if roofline else [])]
    rows = [_row(kernel) + (_on_roof(placed.get(kernel.name)) if roofline else []) for kernel in kernels[:SHOWN]]
    shown = table(columns, rows)
    shown.padding = (0, 1, 0, 0)
    out.print(shown, width=min(80, out.width))
    if len(kernels) > SHOWN:
        out.print(f"{len(kernels) - SHOWN} more: --json shows all", markup=False)


def _row(kernel: Kernel) -> list[object]:
    name = kernel.name if len(kernel.name) <= LONGEST else kernel.name[: LONGEST - 1] + "…"
    intensity = f"{kernel.flops / kernel.dram_bytes:.3g}" if kernel.dram_bytes else None
    moved = None if kernel.dram_bytes is None else size(kernel.dram_bytes)
    return [name, count(kernel.flops), moved, intensity, None if kernel.seconds is None else seconds(kernel.seconds)]


def _on_roof(point: RooflinePoint | None) -> list[object]:
    if point is None:
        return [None, None]
    return [point.roof, None if point.share_of_roof is None else f"{point.share_of_roof:.0%}"]

"""`steplab import ncu`: kernels that Nsight Compute profiled, on the roofline of their GPU."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steplab.cli._output import JsonOption, console, print_json, table
from steplab.core.errors import InputError, allowed

if TYPE_CHECKING:
    from steplab.analysis.roofline.points import Roofline
    from steplab.costs.roofs import Ceilings
    from steplab.store.foreign.ncu import Kernel

SHOWN = 20
LONGEST = 34  # characters of a kernel's name in the table


def register(app: typer.Typer) -> None:
    """Add `ncu` to the subcommands of `steplab import`."""
    app.command("ncu")(ncu)


def ncu(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="What `ncu --csv` printed.")],
    machine: Annotated[str, typer.Option(help="The GPU's machine file: a100, rtx2080, rtx4090 or FILE.toml.")] = "",
    precision: Annotated[str, typer.Option(help="Which peak of the machine file: fp32, fp16_tensor, …")] = "fp32",
    tensor_flops: Annotated[int, typer.Option(min=1, help="FLOPs of one matrix instruction of a warp.")] = 512,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write kernels.json or a chart.html.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Read the CSV of Nsight Compute, count all floating-point instructions, place the kernels on a roofline.

    Example: steplab import ncu kernels.csv --machine rtx2080 --out kernels.html
    """
    from steplab.analysis.roofline.kernels import summed
    from steplab.store.foreign.ncu import read_ncu

    _check(out, machine)
    roofs = _roofs(machine, precision)
    profile = read_ncu(file, tensor_flops)
    kernels, notes = summed(profile.kernels), list(profile.notes)
    made = _roofline(file, kernels, notes, roofs) if roofs else None
    document = _document(file, len(profile.kernels), kernels, notes, roofs, made)
    if out is not None:
        _write(out, document, made)
    if as_json:
        print_json(document)
        return
    _show(kernels, len(profile.kernels), made)
    for note in made.notes if made else notes:
        console().print(f"note: {note}", markup=False, soft_wrap=True)
    if out is not None:
        console().print(f"written: {out.absolute()}", markup=False, soft_wrap=True)


def _check(out: Path | None, machine: str) -> None:
    if out is None:
        return
    if out.suffix not in (".json", ".html"):
        raise InputError(f"{out.name!r} has no known ending", where="--out", hint=allowed([".json", ".html"]))
    if not out.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=f"--out {out.parent}", hint="make it first")
    if out.suffix == ".html" and not machine:
        raise InputError("a chart needs roofs", where="--out", hint="name the GPU with --machine")


def _roofs(machine: str, precision: str) -> Ceilings | None:
    if not machine:
        return None
    from steplab.costs.machine_file import read_machine

    return read_machine(machine, precision)


def _roofline(file: Path, kernels: list[Kernel], notes: list[str], roofs: Ceilings) -> Roofline:
    from steplab.analysis.roofline.kernels import kernel_points
    from steplab.analysis.roofline.points import Roofline

    points = kernel_points(kernels, roofs.rows[0])
    if any(one.tensor_flops for one in kernels) and "tensor" not in roofs.machine:
        notes = [*notes, "some kernels use tensor cores: their roof is that of --precision tf32_tensor or fp16_tensor"]
    if len(points) < len(kernels):
        notes = [*notes, f"{len(kernels) - len(points)} of {len(kernels)} kernels are not placed: no FLOPs or no bytes"]
    return Roofline(file.name, roofs.machine, roofs.rows[0], tuple(points), tuple(notes))


def _document(
    file: Path, launches: int, kernels: list[Kernel], notes: list[str], roofs: Ceilings | None, made: Roofline | None
) -> dict[str, Any]:
    from steplab.cli import _roofline_view as view

    drawn = view.document(roofs, [made]) if roofs and made else {"ceilings": [], "points": [], "notes": notes}
    total = {"flops": sum(one.flops for one in kernels), "launches": launches}
    return {"file": str(file), **total, "kernels": [asdict(one) for one in kernels], **drawn}


def _write(out: Path, document: dict[str, Any], made: Roofline | None) -> None:
    from steplab.cli import _roofline_view as view
    from steplab.store.records import write_file

    if out.suffix == ".html" and made is not None:
        view.write_page(out, [made])
        return
    import orjson

    write_file(out, orjson.dumps(document, option=orjson.OPT_INDENT_2))


def _show(kernels: list[Kernel], launches: int, made: Roofline | None) -> None:
    from steplab.core.units import count

    out = console()
    flops = sum(one.flops for one in kernels)
    out.print(f"{launches} launches of {len(kernels)} kernels, {count(flops)}FLOP", markup=False)
    placed = {point.layer: point for point in made.points} if made else {}
    columns = ["kernel", "FLOPs", "bytes", "FLOP/B", "time", *(["roof", "of roof"] if made else [])]
    rows = [_row(one) + (_on_roof(placed.get(one.name)) if made else []) for one in kernels[:SHOWN]]
    shown = table(columns, rows)
    shown.padding = (0, 1, 0, 0)
    out.print(shown, width=min(80, out.width))
    if len(kernels) > SHOWN:
        out.print(f"{len(kernels) - SHOWN} more: --json shows all", markup=False)


def _row(one: Kernel) -> list[object]:
    from steplab.core.units import count, seconds, size

    name = one.name if len(one.name) <= LONGEST else one.name[: LONGEST - 1] + "…"
    intensity = f"{one.flops / one.dram_bytes:.3g}" if one.dram_bytes else None
    moved = None if one.dram_bytes is None else size(one.dram_bytes)
    return [name, count(one.flops), moved, intensity, None if one.seconds is None else seconds(one.seconds)]


def _on_roof(point: Any) -> list[object]:
    if point is None:
        return [None, None]
    return [point.roof, None if point.share_of_roof is None else f"{point.share_of_roof:.0%}"]

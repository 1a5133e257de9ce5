"""The ceilings of this machine, and where layers and phases stand below them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steplab.cli._output import JsonOption, ModulesOption, command_app, console, next_step, print_json

if TYPE_CHECKING:
    from steplab.analysis.roofline.points import Roofline
    from steplab.costs.roofs import Ceilings

app = command_app()
SHOWN = 3


@app.command()
def roofline(
    source: Annotated[str, typer.Argument(metavar="[DIR | NETWORK]", help="A study's folder, or a network.")] = "",
    machine: Annotated[str, typer.Option(help="A machine file instead of this machine: a100, FILE.toml, …")] = "",
    precision: Annotated[str, typer.Option(help="Which peak of the machine file: fp32, tf32_tensor, …")] = "fp32",
    batch: Annotated[int, typer.Option(min=1, max=2**31, help="Samples in a batch, for a NETWORK.")] = 16,
    input_: Annotated[str, typer.Option("--input", help="Shape of a sample, for a NETWORK, e.g. 3x64x64.")] = "",
    threads: Annotated[int, typer.Option(min=0, help="Threads, for a NETWORK on this machine; 0 is all.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the chart to FILE.html, too.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help=f"Show all layers, and all configurations, not {SHOWN}.")
    ] = False,
    modules: ModulesOption = None,
    remeasure: Annotated[bool, typer.Option("--remeasure", help="Measure this machine's ceilings anew.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how fast this machine can be, and show how close a study's layers and phases come to it.

    FLOPs and bytes are counted from the network's graph, times are those of the study. With a NETWORK nothing is run:
    its layers are placed by their intensity. The ceilings are measured once (about 15 s) and kept.

    Example: steplab roofline runs/demo --out roofline.html
    """
    from steplab.cli import _roofline_source as sources
    from steplab.cli import _roofline_view as view

    if out is not None:
        view.check_page(out)
    roofs = sources.ceilings(machine, precision, remeasure)
    made = sources.rooflines(source, roofs, batch, input_, threads, modules)
    if out is not None:
        view.write_page(out, made or [sources.empty(roofs)])
    if as_json:
        print_json(view.document(roofs, made))
        return
    _show(roofs, made, every)
    if out is not None:
        console().print(f"chart: {out.absolute()}", markup=False, soft_wrap=True)
    if not source:
        next_step("steplab roofline alexnet  (where a network's layers stand; or the folder of a study)")


def _show(roofs: Ceilings, made: list[Roofline], every: bool) -> None:
    from steplab.cli import _roofline_view as view

    view.show_ceilings(roofs)
    for one in made if every else made[:SHOWN]:
        view.show(one, every)
    if len(made) > SHOWN and not every:
        console().print(f"{len(made) - SHOWN} more configurations: --all shows them", markup=False)

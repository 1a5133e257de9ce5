"""The ceilings of this machine, and where layers and phases stand below them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._left_out import tell
from steplab.cli._options import shape
from steplab.cli._output import (
    EnvironmentOption,
    JsonOption,
    ModulesOption,
    command_app,
    console,
    next_step,
    print_json,
)

app = command_app()
SHOWN = 3


@app.command()
def roofline(
    source: Annotated[str, typer.Argument(metavar="[DIR | NETWORK]", help="A study's folder, or a network.")] = "",
    machine: Annotated[str, typer.Option(help="A machine file instead of this machine: a100, FILE.toml, …")] = "",
    precision: Annotated[str, typer.Option(help="Which peak: of a machine file, or bfloat16 here.")] = "fp32",
    batch: Annotated[int, typer.Option(min=1, max=2**31, help="Samples in a batch, for a NETWORK.")] = 16,
    input_: Annotated[str, typer.Option("--input", help="Shape of a sample, for a NETWORK, e.g. 3x64x64.")] = "",
    threads: Annotated[int, typer.Option(min=0, help="Threads, for a NETWORK on this machine; 0 is all.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the chart to FILE.html, too.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help=f"Show all layers, and all configurations, not {SHOWN}.")
    ] = False,
    modules: ModulesOption = None,
    environment: EnvironmentOption = "",
    remeasure: Annotated[bool, typer.Option("--remeasure", help="Measure this machine's ceilings anew.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how fast this machine can be, and show how close a study's layers and phases come to it.

    FLOPs and bytes are counted from the network's graph, times are those of the study. With a NETWORK nothing is run:
    its layers are placed by their intensity. The ceilings are measured once (about 15 s) and kept.

    Example: steplab roofline runs/demo --out roofline.html
    """
    from steplab.api.results.roofline_page import check_page

    if out is not None:
        check_page(out)
    sample = shape(input_)
    drawn = _drawn(source, machine, precision, batch, sample, threads, modules, environment, remeasure)
    tell(drawn.unreadable)
    if out is not None:
        drawn.write(out)
    if as_json:
        print_json(drawn.document())
        return
    _show(drawn, every)
    if out is not None:
        console().print(f"chart: {out.absolute()}", markup=False, soft_wrap=True)
    if not source:
        next_step("steplab roofline alexnet  (where a network's layers stand; or the folder of a study)")


def _drawn(
    source: str, machine: str, precision: str, batch: int, sample: tuple[int, ...] | None, threads: int,
    modules: Path | None, environment: str, remeasure: bool,
) -> steplab.Rooflines:  # fmt: skip
    """The rooflines, with a bar while this machine is measured."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("measuring the ceilings of this machine", total=1.0, visible=False)
        return steplab.roofline(
            source, machine, precision=precision, batch=batch, input_shape=sample, threads=threads, modules=modules,
            environment=environment, remeasure=remeasure,
            progress=lambda share: bar.update(task, completed=share, visible=share < 1.0),
        )  # fmt: skip


def _show(drawn: steplab.Rooflines, every: bool) -> None:
    from steplab.cli import _roofline_view as view

    view.show_ceilings(drawn.ceilings)
    for roofline in drawn.rooflines if every else drawn.rooflines[:SHOWN]:
        view.show(roofline, every)
    if len(drawn.rooflines) > SHOWN and not every:
        console().print(f"{len(drawn.rooflines) - SHOWN} more configurations: --all shows them", markup=False)

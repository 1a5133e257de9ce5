"""Measure the network: latency and bandwidth, plain and of a framework's collective; a network profile."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import steplab
from steplab.cli._interrupts import listening
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, shell, table
from steplab.core.quantities import whole_numbers
from steplab.core.units import count, seconds, size

if TYPE_CHECKING:
    from steplab.api.measuring.network import Collective

app = command_app()
INTERRUPTED = 130
SOME_FAILED = 3
LARGEST = 64 << 20
BAR = 16  # columns of the longest bar


@app.command()
def network(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A cluster in a box; without it this machine.")] = "",
    framework: Annotated[str, typer.Option(help="Whose collective is measured.")] = "torch",
    ranks: Annotated[str, typer.Option(help="How many ranks: 2,3. By default as there are hosts or CPUs.")] = "",
    rate: Annotated[str, typer.Option(help="Of the net's lines: unshaped,1gbit. By default as they are.")] = "",
    largest: Annotated[int, typer.Option(help="Bytes of the largest message: slow lines take long.")] = LARGEST,
    executor: Annotated[str, typer.Option(help="Where ranks run: local, hosts, slurm.")] = "local",
    folder: Annotated[Path | None, typer.Option(help="Of the records; by default a new one under runs.")] = None,
    out: Annotated[Path | None, typer.Option(help="The profile; by default beside the folder.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure messages of 1 KiB to 64 MiB: a plain line, and the exchange of gradients as the framework does it.

    The profile tells `steplab predict --network` what other layouts, networks and accumulations would bring.

    Example: steplab network box --rate unshaped,100mbit --out box.json
    """
    from steplab.cli._progress import watching

    counts = whole_numbers(ranks, "--ranks")
    rates = [text.strip() for text in rate.split(",") if text.strip()]
    planned = steplab.plan_network(
        name, framework=framework, ranks=counts, rates=rates, largest=largest, executor=executor, out=folder
    )  # fmt: skip
    with watching(planned.varied) as bar, listening(bar.stopping) as stop:
        ended = steplab.run_plan(planned, observer=bar, stop=stop, executor=executor)
    if ended.stopped:
        next_step(shell("steplab", "network", *_given(name), "--folder", planned.folder) + "  (goes on)")
        raise typer.Exit(INTERRUPTED)
    measured = steplab.network_profile(planned.folder, out)
    if as_json:
        print_json(measured.document())
    else:
        _show(measured)
        next_step(f'{shell("steplab", "predict", "--network", measured.file)} --from DIR --at "{_at(measured)}"')
    if ended.counts.failed:
        raise typer.Exit(SOME_FAILED)


def _at(measured: steplab.MeasuredNetwork) -> str:
    """A configuration that the profile can tell of: one of a single host knows no other."""
    between = any(entry.nodes > 1 for entry in measured.profile.ranks)
    return "nodes=4" if between else f"workers={measured.profile.ranks[-1].ranks},nodes=1"


def _given(name: str) -> list[str]:
    return [name] if name else []


def _show(measured: steplab.MeasuredNetwork) -> None:
    show, profile = console(), measured.profile
    for collective in profile.ranks:
        hosts = f"{collective.nodes} host{'s' if collective.nodes > 1 else ''}"
        title = f"{collective.ranks} ranks on {hosts} {collective.rate}".rstrip()
        show.print(table(["bytes", "exchange", "from", "to", "CPU", "bytes/s", ""], _rows(collective), title=title))
    pieces = [
        # A line through large messages only may begin below zero, which is no latency.
        [
            name,
            size(piece.from_bytes),
            seconds(piece.latency_s) if piece.latency_s > 0 else "-",
            _speed(piece.bytes_per_s),
        ]
        for name, piece in measured.pieces
    ]
    show.print(table(["pieces of", "from", "latency", "bytes/s"], pieces, title="latency + bytes/bandwidth"))
    how = f" ({profile.backend})" if profile.backend else ""
    show.print(f"profile of {profile.framework}{how} in {measured.file}", markup=False, soft_wrap=True)


def _rows(collective: Collective) -> list[list[str]]:
    points = collective.sizes
    longest = math.log(max(point.seconds for point in points) / 1e-6)
    return [
        [
            size(point.bytes), seconds(point.seconds), seconds(point.low or point.seconds),
            seconds(point.high or point.seconds), seconds(point.cpu_seconds), count(point.bytes / point.seconds),
            "█" * max(1, round(BAR * math.log(max(point.seconds / 1e-6, 1.0)) / max(longest, 1e-9))),
        ]
        for point in points
    ]  # fmt: skip


def _speed(bytes_per_s: float) -> str:
    return count(bytes_per_s) if math.isfinite(bytes_per_s) else "-"

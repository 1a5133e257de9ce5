"""What is on this machine, which frameworks are ready, how noisy it is."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import typer

import steplab
from steplab.cli import command_extensions
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, sentence, table
from steplab.core.units import by

app = command_app()
AMX = {
    "absent": "this CPU announces no tiles for it (AMX)",
    "usable": "with the CPU's tiles (AMX)",
    "broken": "the CPU announces tiles (AMX), but using them ends the process; ranks are kept off them",
}


@app.command()
def doctor(
    matrix: Annotated[bool, typer.Option("--matrix", help="Show what each framework can do instead.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Tell the truth about this machine before anything is measured on it.

    Example: steplab doctor
    """
    if matrix:
        _matrix(as_json)
        return
    checkup = steplab.doctor()
    commands = tuple(command_extensions().values())  # these are the command line's own affair
    checkup = replace(checkup, extensions=(*commands, *checkup.extensions))
    if as_json:
        print_json(checkup.document())
        return
    _show(checkup)
    next_step(checkup.first_step)


def _show(checkup: steplab.Checkup) -> None:
    show, noise = console(), checkup.noise
    show.print(table(["this machine", ""], checkup.machine_rows, left=2))
    cells = [[row.name, "ready" if row.ready else "no", row.version, row.reason] for row in checkup.environments]
    show.print(table(["framework", "", "version", ""], cells, left=4))
    if checkup.extensions:
        cells = [
            [e.name, e.kind, "no" if e.problem else "ready", e.distribution, e.problem] for e in checkup.extensions
        ]
        show.print(table(["extension", "kind", "", "distribution", ""], cells, left=5))
    worst = f"the slowest of twenty longer by {by(1 + noise.worst)}"
    sentence(f"noise: {noise.verdict} (spread {noise.spread:.1%}, {worst})")
    show.print(f"energy: {', '.join(checkup.energy) or 'cannot be measured here (no RAPL, no NVML)'}", markup=False)
    sentence(f"network of several ranks: {_network(checkup.no_private_network)}")
    sentence(f"bfloat16: {AMX[checkup.amx]}")
    _show_slurm(checkup)
    show.print(f"environments and generated data: {checkup.home}", markup=False, soft_wrap=True)
    show.print(f"your own data: {checkup.data or 'STEPLAB_DATA is not set'}", markup=False)


def _show_slurm(checkup: steplab.Checkup) -> None:
    slurm = checkup.slurm
    if slurm.partitions:
        cells = [
            [f"{p.name} (default)" if p.default else p.name, "up" if p.up else "down", p.limit, p.nodes, p.cpus, p.gpus]
            for p in slurm.partitions
        ]
        console().print(table(["partition", "", "time limit", "nodes", "CPUs each", "GPUs"], cells, left=3))
    sentence(f"slurm: {slurm.verdict}")


def _network(refused: str) -> str:
    if not refused:
        return "private, nobody else can reach them"
    return f"open to others, because this system allows no private one ({refused}); see docs/security.md"


def _matrix(as_json: bool) -> None:
    """Framework, network, strategy and distribution: yes, or why not."""
    from steplab.api.machine.doctor import summarised

    rows = steplab.support_matrix()
    if as_json:
        print_json({"matrix": [asdict(row) | {"supported": not row.reason} for row in rows]})
        return
    every = {row.network for row in rows}
    cells = [
        [
            s.framework,
            s.strategy,
            s.distribution,
            "all" if set(s.networks) == every else ", ".join(s.networks),
            s.answer,
        ]
        for s in summarised(rows)
    ]
    console().print(table(["framework", "strategy", "distribution", "networks", "supported"], cells, left=5))

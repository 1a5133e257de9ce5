"""What is on this machine, which frameworks are ready, how noisy it is."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer

from steplab.cli import _extensions
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table

app = command_app()
FIRST = "torch"  # the framework to begin with, as `steplab init` does


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
    from steplab.core.home import home
    from steplab.runner.environments import registry
    from steplab.runner.instruments import quietness
    from steplab.runner.instruments.machine import energy_sources
    from steplab.runner.ranks import leftovers
    from steplab.runner.ranks.private_network import obstacle
    from steplab_worker.machine import machine

    leftovers.sweep()
    about = asdict(machine())
    rows = registry.listing()
    noise = quietness.listen()
    energy = energy_sources()
    refused = obstacle()
    added = _extensions.found()
    if as_json:
        print_json(
            {
                "machine": about,
                "environments": [asdict(row) for row in rows],
                "noise": asdict(noise) | {"verdict": noise.verdict},
                "energy": energy,
                "extensions": _extensions.documents(added),
                "private_network": {"available": not refused, "reason": refused},
                "home": str(home()),
                "data": os.environ.get("STEPLAB_DATA"),
            }
        )
        return
    show = console()
    show.print(table(["this machine", ""], [[name, value or "-"] for name, value in about.items()], left=2))
    cells = [[row.name, "ready" if row.ready else "no", row.version, row.reason] for row in rows]
    show.print(table(["framework", "", "version", ""], cells, left=4))
    if added:
        show.print(_extensions.shown(added))
    show.print(
        f"noise: {noise.verdict} (spread {noise.spread:.1%}, slowest of twenty +{noise.worst:.0%})", markup=False
    )
    show.print(f"energy: {', '.join(energy) or 'cannot be measured here (no RAPL, no NVML)'}", markup=False)
    show.print(f"network of several ranks: {_network(refused)}", markup=False, soft_wrap=True)
    show.print(f"environments and generated data: {home()}", markup=False, soft_wrap=True)
    show.print(f"your own data: {os.environ.get('STEPLAB_DATA') or 'STEPLAB_DATA is not set'}", markup=False)
    next_step(_first_step({row.framework for row in rows if row.ready}))


def _first_step(ready: set[str]) -> str:
    """What a newcomer does next: a study in a framework that is ready, PyTorch before others.

    >>> _first_step({"synthetic", "replay"}), _first_step({"torch", "jax"}), _first_step({"synthetic", "jax"})
    ('steplab env create torch', 'steplab init my-study', 'steplab init my-study --framework jax')
    """
    from steplab.core.catalogue import framework

    real = sorted(name for name in ready if framework(name).needs_environment)
    if not real:
        return f"steplab env create {FIRST}"
    return "steplab init my-study" + ("" if FIRST in real else f" --framework {real[0]}")


def _network(refused: str) -> str:
    if not refused:
        return "private, nobody else can reach them"
    return f"open to others, because this system allows no private one ({refused}); see docs/security.md"


def _matrix(as_json: bool) -> None:
    """Framework, network, strategy and distribution: yes, or why not."""
    from steplab.runner.environments.support_matrix import summarised, support_matrix

    rows = support_matrix()
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

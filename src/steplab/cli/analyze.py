"""Phases, speed-up, efficiency, imbalance and effects of a study, with confidence intervals."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json

if TYPE_CHECKING:
    from steplab.analysis.study import Analysis
    from steplab.analysis.summary import Group

app = command_app()
SHOWN = 40


@app.command()
def analyze(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    why: Annotated[bool, typer.Option("--why", help="Why more workers are slower, and what would help most.")] = False,
    section: Annotated[str, typer.Option(help="Show one section only, such as scaling or frameworks.")] = "",
    every: Annotated[bool, typer.Option("--all", help=f"Show all configurations, not only {SHOWN}.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a study found: the answer first, then the tables.

    Example: steplab analyze runs/demo --why
    """
    from steplab.analysis.sentences import sentences
    from steplab.analysis.study import analyse
    from steplab.cli._left_out import tell
    from steplab.store import tables

    wanted = _sections(section, why)
    loaded = tables.load(folder)
    tell(loaded.unreadable)
    analysis = analyse(loaded.trials, loaded.factors, loaded.iterations, loaded.layers)
    if as_json:
        said = [str(sentence) for sentence in sentences(analysis)]
        print_json(document(analysis) | {"sentences": said, "unreadable": loaded.unreadable})
        return
    _show(analysis, wanted, None if every else SHOWN)
    next_step(f"steplab report {folder} --out report.html")


def _sections(section: str, why: bool) -> list[str]:
    """The names of the sections to show."""
    from steplab.cli._findings import SECTIONS
    from steplab.core.errors import InputError, nearest

    if section and section not in SECTIONS:
        raise InputError(f"there is no section {section!r}", where="--section", hint=nearest(section, tuple(SECTIONS)))
    if section:
        return [section]
    return ["why"] if why else [name for name in SECTIONS if name != "why"]


def _show(analysis: Analysis, wanted: list[str], most: int | None) -> None:
    from steplab.cli._findings import SECTIONS, View

    for name in wanted:
        SECTIONS[name](View(analysis, most))
    if analysis.noise.caveat and "answer" not in wanted:  # the answer holds it
        console().print(analysis.noise.caveat, markup=False)


def document(analysis: Analysis) -> dict[str, Any]:
    """The analysis as the JSON document of `--json`."""
    return {
        "groups": [_group(group) for group in analysis.groups],
        "effects": analysis.effects,
        "designed": analysis.designed,
        "imbalance": [asdict(one) | {"sentence": one.sentence} for one in analysis.imbalance],
        "noise": analysis.noise,
        "scaling": analysis.scaling,
        "why": analysis.why,
        "frameworks": analysis.frameworks,
        "unexplained": analysis.unexplained,
        "trials": analysis.trials,
        "failed": analysis.failed,
        "unsupported": analysis.unsupported,
    }


def _group(group: Group) -> dict[str, Any]:
    t, s = group.t_iter, group.speedup
    return {
        "factors": group.factors,
        "n": t.n,
        "t_iter": {"median": t.median, "low": t.low, "high": t.high, "method": t.method},
        "phases": group.phases,
        "lif": group.lif,
        "throughput": group.throughput,
        "observer_cost": group.observer_cost,
        "speedup": s.value if s else None,
        "speedup_low": s.low if s else None,
        "speedup_high": s.high if s else None,
        "efficiency": group.efficiency,
    }

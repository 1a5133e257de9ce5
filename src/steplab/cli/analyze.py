"""Phases, speed-up, efficiency, imbalance and effects of a study, with confidence intervals."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table

if TYPE_CHECKING:
    from steplab.analysis.study import Analysis
    from steplab.analysis.summary import Group

app = command_app()
SHOWN = 40


@app.command()
def analyze(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    every: Annotated[bool, typer.Option("--all", help=f"Show all configurations, not only {SHOWN}.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a study found: the answer first, then the table.

    Example: steplab analyze runs/demo
    """
    from steplab.analysis.study import analyse
    from steplab.analysis.words import sentences
    from steplab.store import tables

    loaded = tables.load(folder)
    for problem in loaded.unreadable:
        console(stderr=True).print(f"left out: {problem}", markup=False)
    analysis = analyse(loaded.trials, loaded.factors, os.cpu_count() or 1)
    if as_json:
        print_json(document(analysis) | {"sentences": sentences(analysis), "unreadable": loaded.unreadable})
        return
    show = console()
    for sentence in sentences(analysis):
        show.print(sentence, markup=False)
    _tables(analysis, None if every else SHOWN)
    next_step(f"steplab report {folder} --out report.html")


def document(analysis: Analysis) -> dict[str, Any]:
    """The analysis as the JSON document of `--json`."""
    return {
        "groups": [_group(group) for group in analysis.groups],
        "effects": [asdict(effect) for effect in analysis.effects],
        "noise": asdict(analysis.noise),
        "trials": analysis.trials,
        "failed": analysis.failed,
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


def _tables(analysis: Analysis, most: int | None) -> None:
    from steplab.core.units import seconds, span

    show, varied = console(), analysis.varied
    rows = [
        [
            *(group.factors.get(name, "") for name in varied),
            seconds(group.t_iter.median),
            span(group.t_iter.low, group.t_iter.high),
            f"{group.throughput:.0f}",
            f"{group.speedup.value:.2f}" if group.speedup else "",
            f"{group.efficiency:.0%}" if group.efficiency else "",
            f"{group.lif:.2f}" if group.lif else "",
        ]
        for group in analysis.groups[:most]
    ]
    columns = [*varied, "t_iter", "95 % interval", "samples/s", "speed-up", "eff.", "LIF"]
    show.print(table(columns, rows, left=len(varied)))
    if most is not None and len(analysis.groups) > most:
        show.print(f"… and {len(analysis.groups) - most} more (--all shows them)")
    if analysis.groups and analysis.groups[0].phases:
        _phases(analysis, most)


def _phases(analysis: Analysis, most: int | None) -> None:
    names = [name for name in analysis.groups[0].phases if any(g.phases.get(name) for g in analysis.groups)]
    rows = []
    for group in analysis.groups[:most]:
        total = sum(group.phases.values()) or 1.0
        shares = [f"{group.phases.get(name, 0.0) / total:.0%}" for name in names]
        rows.append([*(group.factors.get(name, "") for name in analysis.varied), *shares])
    title = "where a step's time goes (phased mode)"
    console().print(table([*analysis.varied, *names], rows, title=title, left=len(analysis.varied)))

"""Phases, speed-up, efficiency, imbalance and effects of a study, with confidence intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._left_out import tell
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json
from steplab.core.errors import InputError, nearest

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
    wanted = _sections(section, why)
    study = steplab.open(folder)
    tell(study.unreadable)
    findings = study.analyze()
    if as_json:
        print_json(findings.document())
        return
    _show(findings, wanted, None if every else SHOWN)
    next_step(f"steplab report {folder} --out report.html")


def _sections(section: str, why: bool) -> list[str]:
    """The names of the sections to show."""
    from steplab.cli._findings import SECTIONS

    if section and section not in SECTIONS:
        raise InputError(f"there is no section {section!r}", where="--section", hint=nearest(section, tuple(SECTIONS)))
    if section:
        return [section]
    return ["why"] if why else [name for name in SECTIONS if name != "why"]


def _show(findings: steplab.Findings, wanted: list[str], most: int | None) -> None:
    from steplab.cli._findings import SECTIONS, View

    for name in wanted:
        SECTIONS[name](View(findings.analysis, most))
    if findings.analysis.noise.caveat and "answer" not in wanted:  # the answer holds it
        console().print(findings.analysis.noise.caveat, markup=False)

"""Phases, speed-up, efficiency, imbalance and effects of a study, with confidence intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._completion import complete_sections
from steplab.cli._left_out import tell
from steplab.cli._options import listed
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, shell
from steplab.core.errors import InputError, StudyError, nearest

app = command_app()
SHOWN = 20  # rows of a table
LINES = 60  # of everything that is shown by default
AFTER = 4  # lines that follow the table: rows left out, sections, what to do next
Section = Annotated[
    str, typer.Option(help="Show these sections instead: scaling,phases,…", autocompletion=complete_sections)
]


@app.command()
def analyze(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    why: Annotated[bool, typer.Option("--why", help="Why more workers are slower, and what would help most.")] = False,
    section: Section = "",
    every: Annotated[bool, typer.Option("--all", help="Show all sections and all rows.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a study found: the answer, and its configurations in a table; more on request.

    Example: steplab analyze runs/demo --section scaling,phases
    """
    wanted = _sections(section, why=why, every=every)
    study = steplab.open(folder)
    tell(study.unreadable)
    findings = study.analyze()
    if as_json:
        print_json(findings.document())
        return
    if wanted:
        _show(findings, wanted, None if every else SHOWN, asked=bool(section or why))
    else:
        _show_briefly(findings)
    next_step(_next(study, folder))


def _next(study: steplab.Results, folder: Path) -> str:
    """What to do: go on where trials are left, else look at the report."""
    try:
        left = study.status(most=0).counts.left
    except StudyError:  # the study's file is gone: its records tell what they tell
        left = 0
    if left:
        again = shell("steplab", "run", folder / "study.toml", "--out", folder)
        return f"{again}  ({left} trial{'s are' if left > 1 else ' is'} left: more is known then)"
    return shell("steplab", "report", folder, "--out", "report.html")


def _sections(section: str, *, why: bool, every: bool) -> list[str]:
    """The names of the sections to show; none: the answer and one table."""
    from steplab.cli._sections import SECTIONS

    for name in listed(section):
        if name not in SECTIONS:
            raise InputError(f"there is no section {name!r}", where="--section", hint=nearest(name, tuple(SECTIONS)))
    asked = [*listed(section), *(["why"] if why else [])]
    return asked or [name for name in SECTIONS if every and name != "why"]


def _show(findings: steplab.Findings, wanted: list[str], most: int | None, *, asked: bool) -> None:
    from steplab.cli._findings import View
    from steplab.cli._sections import show

    show(wanted, View(findings.analysis, most), asked=asked)
    if findings.analysis.noise.caveat and "answer" not in wanted:  # the answer holds it
        console().print(findings.analysis.noise.caveat, markup=False)


def _show_briefly(findings: steplab.Findings) -> None:
    """The answer, one table, and which sections there are beside."""
    from steplab.cli._findings import View, height
    from steplab.cli._sections import offered, show

    show(["answer"], View(findings.analysis, SHOWN), asked=False)
    left = LINES - AFTER - sum(map(height, findings.sentences))
    if findings.analysis.groups:
        show(["configurations"], View(findings.analysis, SHOWN, left), asked=False)
        why = "--why, " if findings.analysis.why else ""
        more = ",".join(offered(findings.analysis))
        console().print(f"more: {why}--section {more}, or --all", markup=False, style="dim")

"""Run the studies of the reports behind steplab again, and fill their pages from the records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._interrupts import listening
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, shell, table
from steplab.core.units import seconds as shown

app = command_app()
INTERRUPTED = 130
SOME_FAILED = 3
SIZE, SMOKE, EXECUTOR = "laptop", "smoke", "local"
OUT, STUDIES, PAGES = Path("runs/sources"), Path("studies"), Path("docs/sources")


@app.command()
def sources(
    listing: Annotated[bool, typer.Option("--list", help="Only show the studies and how long they take.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Run this source only; may be repeated.")] = None,
    size: Annotated[str, typer.Option(help="laptop, full, or smoke: cut down to a moment, to see it run.")] = SIZE,
    out: Annotated[Path, typer.Option(help="The folder for the studies' folders.")] = OUT,
    executor: Annotated[str, typer.Option(help="Where trials run: local, hosts, slurm.")] = EXECUTOR,
    studies: Annotated[Path, typer.Option(help="The folder with the study files.")] = STUDIES,
    pages: Annotated[Path, typer.Option(help="The folder of the pages and of their tables.")] = PAGES,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Run nothing; fill the pages from stored tables.")] = False,
    chosen: Annotated[str, typer.Option("--table", help="Then show this table of the page; with one --only.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Run the sources' studies one after the other, or go on where that stopped; then fill their pages.

    Ctrl-C ends at the next trial, a second one at once; finished trials stay. Run it in a checkout of steplab, which
    has the study files and the pages.

    Example: steplab sources --only inference-engines --size smoke
    """
    if listing and rebuild:
        raise typer.BadParameter("give --list or --rebuild, one of the two")
    names = only or []
    if chosen:
        _expect_one(names, size, chosen)
    if listing:
        _show_plans(steplab.source_plans(names, size, out=out, studies=studies, executor=executor), as_json)
        return
    if rebuild:
        _show_pages(steplab.rebuild_pages(pages), as_json, _rows(names, chosen, size, pages))
        return
    with listening(_stopping) as stop:
        ended = steplab.reproduce(
            names,
            size,
            out=out,
            studies=studies,
            pages=pages,
            executor=executor,
            watch=_watch,
            stop=stop,
            tell=_note,
        )
    whole = bool(chosen) and not any(run.left for run in ended.runs)
    _show(ended, as_json, _rows(names, chosen, size, pages) if whole else [])
    _leave(ended, _again(names, size, out, executor, studies, pages))


def _again(only: list[str], size: str, out: Path, executor: str, studies: Path, pages: Path) -> str:
    """The command that goes on: what was given is given again."""
    pairs: list[tuple[str, object, object]] = [
        *(("--only", name, None) for name in only),
        ("--size", size, SIZE),
        ("--out", out, OUT),
        ("--executor", executor, EXECUTOR),
        ("--studies", studies, STUDIES),
        ("--pages", pages, PAGES),
    ]
    words = [word for option, value, default in pairs if value != default for word in (option, value)]
    return shell("steplab", "sources", *words)


def _leave(ended: steplab.Reproduction, again: str) -> None:
    """End with the code that says how it went."""
    if any(run.left for run in ended.runs):
        next_step(again + "  (goes on where it stopped)")
    if ended.failed:
        raise typer.Exit(SOME_FAILED)
    if ended.stopped:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def _watch(planned: steplab.StudyPlan) -> Iterator[steplab.RunObserver]:
    """A bar for each study, below its name."""
    from steplab.cli._progress import watching

    _note(planned.study.about.name)
    with watching(planned.varied) as bar:
        yield bar


def _stopping() -> None:
    _note("ending after this trial; Ctrl-C again ends at once")


def _note(text: str) -> None:
    console(stderr=True).print(text, markup=False)


def _show_plans(plans: list[steplab.SourcePlan], as_json: bool) -> None:
    if as_json:
        print_json({"sources": [planned.document() for planned in plans], "seconds": sum(p.seconds for p in plans)})
        return
    rows = [
        [planned.source.name, planned.source.report, planned.trials, planned.left, shown(planned.seconds)]
        for planned in plans
    ]
    console().print(table(["source", "report", "trials", "left", "estimated time"], rows, left=2))
    console().print(f"estimated time of all: {shown(sum(planned.seconds for planned in plans))}")


def _expect_one(names: list[str], size: str, chosen: str) -> None:
    """A table is one source's, and of numbers that mean something."""
    if len(names) != 1 or size == SMOKE:
        raise typer.BadParameter("--table goes with one --only, and not with --size smoke")
    steplab.expect_source_table(names[0], chosen)


def _rows(names: list[str], chosen: str, size: str, pages: Path) -> list[dict[str, object]]:
    """The rows of the chosen table, if one is chosen."""
    if not chosen:
        return []
    own = steplab.source_table(names[0], chosen, size, pages=pages)
    return [dict(zip(own.columns, row, strict=True)) for row in own.itertuples(index=False)]


def _show_rows(rows: list[dict[str, object]]) -> None:
    if rows:
        columns = list(rows[0])
        left = sum(isinstance(value, str) for value in rows[0].values())
        cells = [[_number(value) for value in row.values()] for row in rows]
        console().print(table(columns, cells, left=left))


def _number(value: object) -> object:
    """A cell with four digits; none for what is not known."""
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else f"{value:.4g}"


def _show_pages(written: tuple[Path, ...], as_json: bool, rows: list[dict[str, object]]) -> None:
    if as_json:
        print_json({"pages": [str(page) for page in written], **({"table": rows} if rows else {})})
        return
    names = ", ".join(page.name for page in written)
    console().print(f"written: {names}" if written else "all pages are as their tables say", markup=False)
    _show_rows(rows)


def _show(ended: steplab.Reproduction, as_json: bool, rows: list[dict[str, object]]) -> None:
    if as_json:
        print_json({**ended.document(), **({"table": rows} if rows else {})})
        return
    screen = console()
    for run in ended.runs:
        for counts in run.studies:
            screen.print(f"{counts.folder}: {counts}", markup=False, soft_wrap=True)
        for claim in run.claims:
            screen.print(f"{claim.question} {claim.verdict}. {claim.sentence}", markup=False, soft_wrap=True)
    if ended.pages:
        _show_pages(ended.pages, False, [])
    _show_rows(rows)

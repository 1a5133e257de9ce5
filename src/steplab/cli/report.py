"""Write a study's report: one self-contained page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steplab.cli._output import JsonOption, command_app, console, print_json

if TYPE_CHECKING:
    from steplab.report.data import Provenance
    from steplab.store.paths import StudyFolder

app = command_app()


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    out: Annotated[Path | None, typer.Option(help="The page; by default DIR/report.html.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML file that opens anywhere, offline.

    Example: steplab report runs/demo --out report.html
    """
    from steplab.analysis.study import analyse
    from steplab.core.errors import InputError
    from steplab.core.study_file import read_study
    from steplab.report.data import gather
    from steplab.report.html import render
    from steplab.store import records, tables
    from steplab.store.paths import StudyFolder

    place = StudyFolder(folder)
    page = out or folder / "report.html"
    loaded = tables.load(folder)
    study = read_study(place.study)
    if not page.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=f"--out {page.parent}", hint="make it first")
    analysis = analyse(loaded.trials, loaded.factors, os.cpu_count() or 1)
    about = study.about
    layers = loaded.layers.to_pandas()
    origin = _provenance(place, study.text)
    content = render(
        gather(about.name, about.description, analysis, loaded.trials, layers, origin, loaded.factors)
    ).encode()
    records.write_file(page, content)
    if as_json:
        print_json({"report": str(page.absolute()), "bytes": len(content), "trials": analysis.trials})
    else:
        console().print(f"report: {page.absolute()}", markup=False, soft_wrap=True)


def _provenance(place: StudyFolder, study_text: str) -> Provenance:
    """Machine, versions and the command that repeats a trial, from the first good record."""
    from steplab.report.data import Provenance
    from steplab.store import records

    versions: dict[str, str] = {}
    last = None
    for record in records.all_records(place):
        versions.update({name: value for name, value in record.versions.items() if value})
        last = record if last is None or record.status == "ok" else last
    if last is None:
        return Provenance(study_text, {"cpu": "no trial yet"}, {}, "", "none", "")
    source = f"{last.data.name}, {last.data.source}, {last.data.samples} samples"
    return Provenance(study_text, dict(last.machine), versions, last.command, source, last.started[:10])

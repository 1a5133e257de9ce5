"""Write a study's report: one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._completion import complete_models
from steplab.cli._life import working
from steplab.cli._options import listed
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, shell

app = command_app()


@app.command(epilog="Example: steplab report runs/demo --figures figures")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    out: Annotated[Path | None, typer.Option(help="The page; by default DIR/report.html.")] = None,
    models: Annotated[
        str,
        typer.Option(
            help="Models to fit (generic,ssgd,…), or saved ones: a.json,b.json.", autocompletion=complete_models
        ),
    ] = "",
    figures: Annotated[Path | None, typer.Option(help="Also write SVG, PNG and LaTeX files there.")] = None,
    network: Annotated[Path | None, typer.Option(help="A network profile: sliders of bandwidth and latency.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML file that opens anywhere, offline.

    Without --models, the quick readable models are fitted to the study's own trials.

    Example: steplab report runs/demo --out report.html
    """
    with working("writing the report"):
        written = steplab.open(folder).report(out, models=listed(models), figures=figures, network=network)
    if as_json:
        print_json(written.document())
        return
    console().print(f"report: {written.path}", markup=False, soft_wrap=True)
    if figures is not None:
        console().print(f"figures: {len(written.figures)} files in {figures}", markup=False, soft_wrap=True)
    page = shell(out or folder / "report.html")
    next_step(f"open {page} in a browser; it needs no network")

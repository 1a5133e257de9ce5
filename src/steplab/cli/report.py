"""Write a study's report: one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json

if TYPE_CHECKING:
    from steplab.report.data import ReportData

app = command_app()


@app.command(epilog="Example: steplab report runs/demo --figures figures")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    out: Annotated[Path | None, typer.Option(help="The page; by default DIR/report.html.")] = None,
    models: Annotated[str, typer.Option(help="Models to fit (generic,ssgd,…), or saved ones: a.json,b.json.")] = "",
    figures: Annotated[Path | None, typer.Option(help="Also write SVG, PNG and LaTeX files there.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML file that opens anywhere, offline.

    Without --models, the quick readable models are fitted to the study's own trials.

    Example: steplab report runs/demo --out report.html
    """
    from steplab.cli._report import fitter, report_data
    from steplab.core.errors import InputError

    page = out or folder / "report.html"
    if out is not None and not page.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=f"--out {page.parent}", hint="make it first")
    with fitter(folder) as beside:
        data = report_data(folder, models, beside=beside)

    from steplab.report.html import content, render
    from steplab.store import records

    text = render(content(data)).encode()
    written = _figures(data, figures) if figures is not None else []
    records.write_file(page, text)
    if as_json:
        print_json({"report": str(page.absolute()), "bytes": len(text), "trials": data.analysis.trials,
                    "models": [one.name for one in data.models.judged if one.model is not None],
                    "figures": [str(path) for path in written]})  # fmt: skip
        return
    console().print(f"report: {page.absolute()}", markup=False, soft_wrap=True)
    if figures is not None:
        console().print(f"figures: {len(written)} files in {figures}", markup=False, soft_wrap=True)
    next_step(f"open {page} in a browser; it needs no network")


def _figures(data: ReportData, folder: Path) -> list[Path]:
    """Every figure as SVG and PNG, every table as LaTeX."""
    from steplab.core.errors import StoreError
    from steplab.report.browser import images
    from steplab.report.html import figures
    from steplab.report.latex import latex
    from steplab.report.tables import tables
    from steplab.store import records

    files = {f"{one.name}.{one.suffix}": one.content for one in images(figures(data))}
    files |= {f"{table.id}.tex": latex(table).encode() for table in tables(data)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be made ({error.strerror})") from None
    for name, content in files.items():
        records.write_file(folder / name, content)
    return [folder / name for name in files]

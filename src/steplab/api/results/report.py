"""Writing a study's report: one self-contained page, and its figures as files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplab.api.results.report_data import fitter, report_data
from steplab.core.errors import InputError, StoreError

if TYPE_CHECKING:
    from steplab.api.modelling.rows import Columns
    from steplab.api.study_data import StudyData
    from steplab.report.data import NetworkSliders, ReportData


@dataclass(frozen=True)
class WrittenReport:
    """A report that was written: the page, what it shows, and the files of its figures."""

    path: Path
    bytes: int
    trials: int
    models: tuple[str, ...]
    figures: tuple[Path, ...]

    def document(self) -> dict[str, Any]:
        """What `steplab report --json` prints."""
        files = [str(path) for path in self.figures]
        about = {"bytes": self.bytes, "trials": self.trials, "models": list(self.models)}
        return {"report": str(self.path), **about, "figures": files}


def report(
    data: StudyData,
    path: Path | str | None = None,
    *,
    models: Columns = (),
    figures: Path | str | None = None,
    network: Path | str | None = None,
) -> WrittenReport:
    """Write one HTML file that opens anywhere, offline.

    Args:
        data: The study.
        path: The page, by default `report.html` in the study's folder.
        models: Models to fit, or files of saved ones (`a.json`); by default the quick readable ones.
        network: A network profile, for sliders of bandwidth and latency.
        figures: A folder that also gets every figure as SVG and PNG and every table as LaTeX; needs Chromium.
    """
    page = Path(path) if path is not None else data.folder / "report.html"
    if not page.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=str(page.parent), hint="make it first")
    with fitter(data.folder) as beside:
        shown = report_data(data, models, beside=beside)
    if network is not None:
        shown = replace(shown, network=_sliders(data, Path(network), shown))

    from steplab.report.html import content, render
    from steplab.store.records import write_file

    text = render(content(shown)).encode()
    written = _figures(shown, Path(figures)) if figures is not None else ()
    write_file(page, text)
    names = tuple(judged.name for judged in shown.models.judged if judged.model is not None)
    return WrittenReport(page.absolute(), len(text), shown.analysis.trials, names, written)


def _sliders(data: StudyData, network: Path, shown: ReportData) -> NetworkSliders:
    """The fastest configuration over the network, by its profile, its lines and its latency at will."""
    from steplab.api.results.network_sliders import network_sliders

    fastest = shown.analysis.groups[0].factors if shown.analysis.groups else {}
    return network_sliders(data, network, {name: str(level) for name, level in fastest.items()})


def _figures(data: ReportData, folder: Path) -> tuple[Path, ...]:
    """Every figure as SVG and PNG, every table as LaTeX."""
    from steplab.report.browser import images
    from steplab.report.html import figures
    from steplab.report.latex import latex
    from steplab.report.tables import tables
    from steplab.store.records import write_file

    files = {f"{image.name}.{image.suffix}": image.content for image in images(figures(data))}
    files |= {f"{table.id}.tex": latex(table).encode() for table in tables(data)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be made ({error.strerror})") from None
    for name, content in files.items():
        write_file(folder / name, content)
    return tuple(folder / name for name in files)

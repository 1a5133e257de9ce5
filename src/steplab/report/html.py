"""One self-contained page: template, charts and plotly.js in a single file that needs no network."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import orjson

from steplab.analysis.noise import Noise, spread_words
from steplab.core.files import readable
from steplab.core.machine_words import machine_rows
from steplab.core.units import by
from steplab.report.answer import PRECISION
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn
from steplab.report.figures import CHARTS, Chart
from steplab.report.tables import tables
from steplab.report.whatif import what_if

if TYPE_CHECKING:
    import jinja2
    import markupsafe
    import plotly.graph_objects as go

SCRIPTS = ("formula.js", "charts.js", "legend.js", "tables.js", "whatif.js", "page.js", "live.js")
ALWAYS = {"what-if": "What if", "noise": "How far to trust it", "provenance": "How it was measured"}


@dataclass(frozen=True)
class Content:
    """What a page shows: its middle as HTML, the data of its scripts as JSON, and a version of both."""

    title: str
    description: str
    main: str
    document: bytes
    version: str


def content(data: ReportData) -> Content:
    """The page's middle and data, for the page itself and for a live page that renews itself."""
    drawn = drawings(data)
    shown = tables(data)
    sliders = what_if(data)
    document = {
        "charts": {name: chart.figure.to_plotly_json() for name, chart in drawn.items()},
        "tables": [table.document() for table in shown],
        "whatIf": sliders,
    }
    proving = {f"table-{table.id}": table.title for table in shown if f"table-{table.id}" == PRECISION}
    anchors = {chart.id: chart.title for chart in CHARTS if chart.id in drawn} | proving | ALWAYS
    main = _template("main.html").render(
        analysis=data.analysis, answer=data.answer, provenance=data.provenance, noise=data.analysis.noise,
        doubts=_doubts(data.analysis.noise), machine=machine_rows(data.provenance.machine), tables=shown,
        anchors=anchors, no_model=data.models.reason,
        charts=[_shown(chart, drawn[chart.id], data) for chart in CHARTS if chart.id in drawn],
        missing=[chart for chart in CHARTS if chart.missing and chart.id not in drawn], offered=bool(sliders["models"]),
    )  # fmt: skip
    main = readable(main)  # the commands name the folder
    plain = _safe(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS))
    version = hashlib.sha256(plain + main.encode()).hexdigest()[:16]
    return Content(data.title, data.description, main, b'{"version":"%s",%s' % (version.encode(), plain[1:]), version)


def render(page: Content, *, live: bool = False) -> str:
    """The report as one HTML file; a live one also asks its server for news."""
    from plotly.offline import get_plotlyjs

    plotly = get_plotlyjs()
    script = '"use strict";\n' + "\n".join(_part(name) for name in SCRIPTS)
    return _template("page.html").render(
        title=page.title, description=page.description, live=live, main=page.main, plotly=plotly, script=script,
        style=_part("page.css"), policy=_policy((plotly, script), live=live), document=page.document.decode(),
    )  # fmt: skip


def drawings(data: ReportData) -> dict[str, Drawn]:
    """The charts that the study has data for, by their ids."""
    return {chart.id: drawn for chart in CHARTS if (drawn := chart.draw(data)) is not None}


def figures(data: ReportData) -> dict[str, go.Figure]:
    """The same as figures of Plotly."""
    return {name: drawn.figure for name, drawn in drawings(data).items()}


@dataclass(frozen=True)
class _Shown:
    """A chart as the template sees it."""

    id: str
    title: str
    reading: str
    remarks: tuple[str, ...]
    notes: tuple[str, ...]


def _shown(chart: Chart, drawn: Drawn, data: ReportData) -> _Shown:
    return _Shown(chart.id, chart.title, chart.reading, drawn.remarks, data.notes.get(chart.id, ()))


def _policy(scripts: tuple[str, ...], *, live: bool) -> str:
    """Only these scripts may run, whatever a name holds; nothing may be fetched but a live page's own news."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    rest = "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {hashes}; {rest}" + ("; connect-src 'self'" if live else "")


def _safe(document: bytes) -> bytes:
    """JSON that may stand in a script element: no tag can begin in it."""
    return document.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")


def _doubts(noise: Noise) -> list[tuple[str, str]]:
    """The noise in numbers, as far as it is known."""
    between = None if noise.between is None else spread_words(noise.between)
    differences = (
        ("iterations inside a trial spread by", noise.within),
        ("two single configurations are told apart from a difference of", noise.detectable),
        ("a factor's levels, on average over the design, from", noise.detectable_effect),
    )
    shares = (("trials that drift", noise.drifting), ("the machine's CPU time taken by other programs", noise.others))
    return [
        *([("replicates differ by", between)] if between else []),
        *((name, by(1 + share)) for name, share in differences if share is not None),
        *((name, f"{share:.0%}") for name, share in shares if share is not None),
    ]


@cache
def _part(name: str) -> str:
    return resources.files("steplab.report").joinpath("page", name).read_text("utf-8")


def _template(name: str) -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["code"] = _code
    return environment.from_string(_part(name))


def _code(text: str) -> markupsafe.Markup:
    """Text with commands between backticks, as HTML."""
    import markupsafe

    parts = [str(markupsafe.escape(part)) for part in text.split("`")]
    wrapped = (f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
    return markupsafe.Markup("".join(wrapped))


def state(page: Content, progress: dict[str, Any]) -> bytes:
    """The news of a live page: progress, and the page's middle and data."""
    head = orjson.dumps({"version": page.version, "progress": progress, "main": page.main})
    return head[:-1] + b',"document":' + page.document + b"}"

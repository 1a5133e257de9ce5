"""One self-contained page: template, charts and plotly.js in a single file that needs no network."""

from __future__ import annotations

from importlib import resources
from typing import Any

from steplab.core.units import seconds, span
from steplab.report.data import ReportData
from steplab.report.figures import CHARTS


def render(data: ReportData) -> str:
    """The report as HTML."""
    import jinja2
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["seconds"] = seconds
    environment.globals["span"] = span
    template = environment.from_string(resources.files("steplab.report").joinpath("page.html").read_text("utf-8"))
    charts = [_chart(title, draw, missing, data) for title, draw, missing in CHARTS]
    return template.render(
        title=data.title,
        description=data.description,
        analysis=data.analysis,
        answer=data.answer,
        failed=data.failed,
        provenance=data.provenance,
        charts=charts,
        plotly=get_plotlyjs(),
    )


def _chart(title: str, draw: Any, missing: str, data: ReportData) -> dict[str, str]:
    figure = draw(data)
    # "</script>" inside a name would end the script; in JSON the slash may be escaped.
    text = "" if figure is None else figure.to_json().replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return {"title": title, "json": text, "missing": missing}

"""The page with the charts of rooflines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jinja2
from plotly.offline import get_plotlyjs

from steplab.analysis.roofline.chart import figure
from steplab.analysis.roofline.points import Roofline
from steplab.api.results.roofline_words import sentences
from steplab.core.errors import InputError, allowed
from steplab.store.records import write_file


def check_page(out: Path) -> None:
    """Say what is wrong with the name of a page before anything is measured."""
    if out.suffix != ".html":
        raise InputError(f"{out.name!r} has no known ending", hint=allowed([".html"]))
    if not out.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=str(out.parent), hint="make it first")


def write_page(out: Path, rooflines: Sequence[Roofline]) -> None:
    """One self-contained page with a chart for each configuration."""
    check_page(out)
    # "</script>" inside a name would end the script; in JSON the slash may be escaped.
    charts = [figure(roofline).to_json().replace("</", "<\\/").replace("<!--", "<\\u0021--") for roofline in rooflines]
    page = jinja2.Environment(autoescape=True).from_string(PAGE)
    notes = [(*sentences(roofline, "faint", "above a line"), *roofline.notes) for roofline in rooflines]
    text = page.render(plotly=get_plotlyjs(), charts=list(zip(charts, notes, strict=True)))
    write_file(out, text.encode())


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Roofline</title>
<style>body{font-family:system-ui,sans-serif;max-width:1100px;margin:1rem auto;padding:0 1rem}p{margin:.3rem 0}</style>
<script>{{ plotly|safe }}</script></head><body>
{% for chart, notes in charts %}<div id="c{{ loop.index }}"></div>
{% for note in notes %}<p>{{ note }}</p>{% endfor %}
<script>(function(f){Plotly.newPlot("c{{ loop.index }}",f.data,f.layout,{responsive:true})})({{ chart|safe }})</script>
{% endfor %}</body></html>
"""

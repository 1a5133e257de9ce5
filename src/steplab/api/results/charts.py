"""The charts of a report, one at a time, from a study's findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from steplab.core.errors import InputError, nearest
from steplab.report.data import Provenance, ReportData, Tabled, gather
from steplab.report.figures import CHARTS
from steplab.report.modelling import Modelled

if TYPE_CHECKING:
    from steplab.api.results.findings import Findings

OF_MODELS = ("predicted", "penalty", "forecast", "roofline")  # these need more than the findings
DRAWN = {chart.id: chart for chart in CHARTS if chart.id not in OF_MODELS}


def names(findings: Findings) -> list[str]:
    """The names of the charts that the study has data for."""
    data = _data(findings)
    return [name for name, chart in DRAWN.items() if chart.draw(data) is not None]


def figure(findings: Findings, name: str) -> go.Figure:
    """The chart of that name."""
    if name not in DRAWN:
        raise InputError(f"there is no chart {name!r}", hint=nearest(name, DRAWN))
    drawn = DRAWN[name].draw(_data(findings))
    if drawn is None:
        raise InputError(DRAWN[name].missing, where=str(findings.data.folder))
    return drawn.figure


def _data(findings: Findings) -> ReportData:
    tables, study = findings.data.tables, findings.data.study
    tabled = Tabled(tables.trials, tables.iterations, tables.layers, tables.factors)
    nowhere = Provenance(study.text, {}, {}, "", "", "")
    about = study.about
    return gather(about.name, about.description, findings.analysis, tabled, nowhere, Modelled(), {})

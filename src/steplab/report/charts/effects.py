"""Effects: by what each level multiplies the step time, and where one factor changes another's effect."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from steplab.report.charts.style import GREY, colour, finish, rows_height, series, whiskers
from steplab.report.data import ReportData, measured
from steplab.report.words import plain

MOST_LEVELS = 8
MOST_PAIRS = 3
MOST_EFFECTS = 40


def effects(data: ReportData) -> go.Figure | None:
    """By which factor each level multiplies the step time; hollow where there may be no effect."""
    shown = data.analysis.effects[:MOST_EFFECTS]
    if not shown:
        return None
    ratios = [one.ratio for one in shown]
    places = list(range(len(shown)))
    figure = go.Figure(
        go.Scatter(
            x=ratios, y=places, mode="markers", showlegend=False,
            error_x=whiskers(ratios, [one.low for one in shown], [one.high for one in shown], GREY),
            marker={
                "size": 10, "color": [colour(0) if one.differs else GREY for one in shown],
                "symbol": ["circle" if one.differs else "circle-open" for one in shown],
            },
            hovertemplate="× %{x:.3g}<extra></extra>",
        )
    )  # fmt: skip
    texts = [plain(f"{one.factor}: {one.level} instead of {one.reference}") for one in shown]
    figure.add_vline(x=1.0, line={"dash": "dash", "color": GREY})
    figure.update_xaxes(type="log", nticks=12)
    figure.update_yaxes(tickvals=places, ticktext=texts, autorange="reversed")
    x = "ratio of step times"
    return finish(figure, x, "", height=rows_height(len(shown)))


def interactions(data: ReportData) -> go.Figure | None:
    """The typical step time at the levels of two factors together; parallel lines mean no interaction."""
    ok = measured(data.trials)
    pairs = _pairs(ok, data)
    if not pairs:
        return None
    figure = make_subplots(rows=1, cols=len(pairs), horizontal_spacing=0.09)
    looks: dict[tuple[str, object], int] = {}
    for column, (first, second) in enumerate(pairs, start=1):
        for name in sorted(ok[second].unique(), key=_order):
            x, y = _cells(ok[ok[second] == name], first)
            new = (second, name) not in looks
            at = looks.setdefault((second, name), len(looks))
            figure.add_scatter(x=x, y=y, mode="lines+markers", name=f"{plain(second)}={plain(name, 24)}",
                               hovertemplate="%{x}: %{y:.4g} ms<extra>%{fullData.name}</extra>",
                               legendgroup=str(at), showlegend=new, row=1, col=column, **series(at))  # fmt: skip
        figure.update_xaxes(title={"text": plain(first)}, type="category", row=1, col=column)
    figure.update_yaxes(type="log", nticks=6)
    figure.update_yaxes(title={"text": "geometric mean step time [ms]"}, row=1, col=1)
    return finish(figure, "", "", height=420 + 8 * len(looks))


def _order(level: object) -> tuple[bool, object]:
    return (isinstance(level, str), level)


def _pairs(ok: pd.DataFrame, data: ReportData) -> list[tuple[str, str]]:
    """The pairs of factors whose interaction is strongest: what no product of two effects explains."""
    names = [n for n in data.analysis.varied if n in ok and 2 <= ok[n].nunique() <= MOST_LEVELS and ok[n].notna().all()]
    strengths = {}
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            cells = np.log(ok["t_iter"]).groupby([ok[first], ok[second]]).mean().unstack()
            if cells.notna().all(axis=None):
                free = cells.sub(cells.mean(axis=1), axis=0).sub(cells.mean(axis=0)).add(cells.to_numpy().mean())
                longer = (first, second) if cells.shape[0] >= cells.shape[1] else (second, first)
                strengths[longer] = float(np.abs(free.to_numpy()).max())
    return sorted(strengths, key=lambda pair: -strengths[pair])[:MOST_PAIRS]


def _cells(part: pd.DataFrame, name: str) -> tuple[list[str], list[float]]:
    means = np.exp(np.log(part["t_iter"]).groupby(part[name]).mean()) * 1e3
    levels = sorted(means.index, key=_order)
    return [plain(level, 24) for level in levels], [float(means[level]) for level in levels]

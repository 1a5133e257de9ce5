"""Effects: by what each level multiplies the step time, and where one factor changes another's effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from steplab.analysis.effects.findings import Designed, Mean
from steplab.core.plain_text import plain
from steplab.core.trial import Level
from steplab.report.charts.style import GREY, colour, finish, log_axis, rows_height, series, whiskers
from steplab.report.data import ReportData

MOST_LEVELS = 8
MOST_PAIRS = 3
MOST_EFFECTS = 40


def effects(data: ReportData) -> go.Figure | None:
    """By which factor each level multiplies the step time; hollow where there may be no effect."""
    shown = data.analysis.effects[:MOST_EFFECTS]
    if not shown:
        return None
    ratios = [effect.ratio for effect in shown]
    places = list(range(len(shown)))
    figure = go.Figure(
        go.Scatter(
            x=ratios, y=places, mode="markers", showlegend=False,
            error_x=whiskers(ratios, [effect.low for effect in shown], [effect.high for effect in shown], GREY),
            marker={
                "size": 10, "color": [colour(0) if effect.differs else GREY for effect in shown],
                "symbol": ["circle" if effect.differs else "circle-open" for effect in shown],
            },
            hovertemplate="× %{x:.3g}<extra></extra>",
        )
    )  # fmt: skip
    texts = [plain(f"{effect.factor}: {effect.level} instead of {effect.reference}") for effect in shown]
    figure.add_vline(x=1.0, line={"dash": "dash", "color": GREY})
    figure.update_xaxes(log_axis([edge for effect in shown for edge in (effect.low, effect.high, 1.0)]))
    figure.update_yaxes(tickvals=places, ticktext=texts, autorange="reversed")
    x = "ratio of step times"
    return finish(figure, x, "", height=rows_height(len(shown)))


def interactions(data: ReportData) -> go.Figure | None:
    """The mean step time at the levels of two factors together; parallel lines mean no interaction."""
    pairs = _pairs(data.analysis.designed)
    if not pairs:
        return None
    figure = make_subplots(rows=1, cols=len(pairs), horizontal_spacing=0.09)
    looks: dict[tuple[str, Level], int] = {}
    for column, cells in enumerate(pairs, start=1):
        first, second = cells[0].factors
        for name in sorted({mean.levels[1] for mean in cells}, key=_order):
            line = sorted((mean for mean in cells if mean.levels[1] == name), key=lambda mean: _order(mean.levels[0]))
            new = (second, name) not in looks
            at = looks.setdefault((second, name), len(looks))
            y, known = [1e3 * mean.seconds for mean in line], [mean for mean in line if mean.low is not None]
            figure.add_scatter(x=[plain(mean.levels[0], 24) for mean in line], y=y, mode="lines+markers",
                               error_y=_interval(line, y) if len(known) == len(line) else None,
                               name=f"{plain(second)}={plain(name, 24)}", legendgroup=str(at), showlegend=new,
                               hovertemplate="%{x}: %{y:.4g} ms<extra>%{fullData.name}</extra>",
                               row=1, col=column, **series(at))  # fmt: skip
        figure.update_xaxes(title={"text": plain(first)}, type="category", row=1, col=column)
        figure.update_yaxes(log_axis(1e3 * mean.seconds for mean in cells), row=1, col=column)
    figure.update_yaxes(title={"text": "mean step time [ms]"}, row=1, col=1)
    return finish(figure, "", "", height=420 + 8 * len(looks))


def _interval(line: list[Mean], middle: list[float]) -> dict[str, Any]:
    return whiskers(middle, [1e3 * (mean.low or 0.0) for mean in line], [1e3 * (mean.high or 0.0) for mean in line])


def _order(level: Level) -> tuple[bool, Level]:
    return (isinstance(level, str), level)


def _pairs(experiment: Designed) -> list[list[Mean]]:
    """The means of the pairs of factors whose interaction explains most, the factor with more levels first."""
    by_pair: dict[tuple[str, ...], list[Mean]] = {}
    for mean in experiment.pair_means:
        by_pair.setdefault(mean.factors, []).append(mean)
    share = {row.factors: row.share for row in experiment.anova}
    panels = []
    for pair in sorted(by_pair, key=lambda pair: -share.get(pair, 0.0)):
        cells = by_pair[pair]
        sizes = [len({mean.levels[at] for mean in cells}) for at in (0, 1)]
        if max(sizes) <= MOST_LEVELS:
            panels.append(cells if sizes[0] >= sizes[1] else [_turned(mean) for mean in cells])
    return panels[:MOST_PAIRS]


def _turned(mean: Mean) -> Mean:
    return replace(mean, factors=mean.factors[::-1], levels=mean.levels[::-1])

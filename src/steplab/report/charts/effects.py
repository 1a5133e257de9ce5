"""Effects: by what each level multiplies the step time, and where one factor changes another's effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from steplab.analysis.effects.findings import Designed, Effect, Mean
from steplab.core.plain_text import plain
from steplab.core.trial import Level
from steplab.report.charts.labels import BREAK, LINE, in_a_line, most_lines, shortened
from steplab.report.charts.style import GREY, colour, finish, log_axis, rows_height, series, whiskers
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn, omission

MOST_LEVELS = 8
MOST_PAIRS = 3
MOST_EFFECTS = 40


def effects(data: ReportData) -> Drawn | None:
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
    texts = [_change(effect) for effect in shown]
    figure.add_vline(x=1.0, line={"dash": "dash", "color": GREY})
    figure.update_xaxes(log_axis([edge for effect in shown for edge in (effect.low, effect.high, 1.0)]))
    figure.update_yaxes(tickvals=places, ticktext=texts, autorange="reversed")
    figure = finish(figure, "ratio of step times", "", height=rows_height(len(shown), most_lines(texts)))
    return drawn(figure, omission(len(shown), len(data.analysis.effects), "effects"))


def _change(effect: Effect) -> str:
    head, tail = f"{effect.factor}: {shortened(effect.level)}", f"instead of {shortened(effect.reference)}"
    return f"{plain(head, 80)}{' ' if len(head) + len(tail) < LINE else BREAK}{plain(tail, 80)}"


def interactions(data: ReportData) -> Drawn | None:
    """The mean step time at the levels of two factors together; parallel lines mean no interaction."""
    every = _pairs(data.analysis.designed)
    pairs = every[:MOST_PAIRS]
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
            x = [plain(shortened(mean.levels[0], 24)) for mean in line]
            figure.add_scatter(x=x, y=y, mode="lines+markers",
                               error_y=_interval(line, y) if len(known) == len(line) else None,
                               name=in_a_line({second: name}, [second]), legendgroup=str(at), showlegend=new,
                               hovertemplate="%{x}: %{y:.4g} ms<extra>%{fullData.name}</extra>",
                               row=1, col=column, **series(at))  # fmt: skip
        figure.update_xaxes(title={"text": plain(first)}, type="category", row=1, col=column)
        figure.update_yaxes(log_axis(1e3 * mean.seconds for mean in cells), row=1, col=column)
    figure.update_yaxes(title={"text": "mean step time [ms]"}, row=1, col=1)
    most = omission(len(pairs), len(every), "pairs of factors", "those whose interaction explains most")
    return drawn(finish(figure, "", "", height=380), most)


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
    return panels


def _turned(mean: Mean) -> Mean:
    return replace(mean, factors=mean.factors[::-1], levels=mean.levels[::-1])

"""Where a step's time goes: phases per framework and workers, and what communication waits, moves and hides."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from steplab.core.plain_text import plain
from steplab.core.trial import Level, plain_level
from steplab.report.charts.labels import in_lines, most_lines
from steplab.report.charts.style import GREY, bar, finish, panel_title, rows_height
from steplab.report.data import ReportData, measured
from steplab.report.drawing import Drawn, drawn, omission
from steplab_worker.phases import EXCHANGE_PARTS, ITERATION, SHARES, WORDS

COMMUNICATION = {
    **{name: WORDS[name] for name in EXCHANGE_PARTS},
    "t_hidden": "hidden behind compute",
    "t_exposed": "exposed",
}
NATIVE = {"color": GREY, "symbol": "diamond", "size": 11, "line": {"color": "#ffffff", "width": 1.5}}
MOST_ROWS = 24
MOST_PANELS = 6


def phases(data: ReportData) -> Drawn | None:
    """Median time of each phase, stacked, for each framework and number of workers; a mark is the native step."""
    ok = measured(data.trials)
    have = [name for name in SHARES if name in ok and ok[name].notna().any()]
    if not have:
        return None
    keys = [name for name in ("framework", "network", "workers") if name in ok and (ok[name].nunique() > 1)]
    keys = keys or ["framework"]
    every = _medians(ok[ok[have].notna().any(axis=1)], keys, [*have, ITERATION])
    medians = every[:MOST_ROWS]
    names = [in_lines(dict(zip(keys, key, strict=True)), keys) for key, _ in medians]
    figure = go.Figure()
    for at, phase in enumerate(SHARES):
        values = [row.get(phase, 0.0) * 1e3 for _, row in medians]
        if any(values):
            figure.add_bar(
                x=values, y=list(range(len(names))), orientation="h", name=f"{phase}: {WORDS[phase]}", marker=bar(at),
                customdata=names, hovertemplate=f"%{{customdata}}<br>{phase} %{{x:.4g}} ms<extra></extra>",
            )  # fmt: skip
    figure.add_scatter(
        x=[row.get(ITERATION, math.nan) * 1e3 for _, row in medians], y=list(range(len(names))), mode="markers",
        name="t_iter: the native step", marker=NATIVE, customdata=names,
        hovertemplate="%{customdata}<br>native step %{x:.4g} ms<extra></extra>",
    )  # fmt: skip
    figure.update_layout(barmode="relative", bargap=0.3)
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names, autorange="reversed")
    height = rows_height(len(names), most_lines(names))
    figure = finish(figure, "median time [ms], bars: phased mode", "", height=height)
    return drawn(figure, omission(len(medians), len(every), "rows"))


def _medians(ok: pd.DataFrame, keys: list[str], columns: list[str]) -> list[tuple[tuple[Level, ...], dict[str, float]]]:
    grouped = ok.groupby(keys, dropna=False, sort=True)[columns].median()
    medians = []
    for key, row in grouped.iterrows():
        values = {name: float(row[name]) for name in columns if row[name] == row[name]}
        levels = key if isinstance(key, tuple) else (key,)
        medians.append((tuple(plain_level(level) for level in levels), values))
    return medians


def communication(data: ReportData) -> Drawn | None:
    """Waiting, moving, hidden and exposed communication against workers, one panel for each framework."""
    ok = measured(data.trials)
    have = [name for name in COMMUNICATION if name in ok and ok[name].notna().any()]
    if not have or "workers" not in ok or ok["workers"].max() < 2:
        return None
    ok = ok[ok["workers"] > 1]
    every = sorted(ok["framework"].unique())
    frameworks = every[:MOST_PANELS]
    columns = min(len(frameworks), 3)
    rows = -(-len(frameworks) // columns)
    figure = make_subplots(rows=rows, cols=columns, vertical_spacing=0.3 / rows)
    for at, framework in enumerate(frameworks):
        place = {"row": at // columns + 1, "col": at % columns + 1}
        _add_bars(figure, ok[ok["framework"] == framework], have, place, legend=at == 0)
        if len(frameworks) > 1:
            panel_title(figure, plain(framework, 24), place["row"], place["col"])
        figure.update_xaxes(title={"text": "workers", "standoff": 6}, type="category", **place)
        figure.update_yaxes(rangemode="tozero", title={"text": "time [ms]" if at % columns == 0 else ""}, **place)
    figure.update_layout(barmode="group", bargap=0.35)
    return drawn(finish(figure, "", "", height=60 + 260 * rows), omission(len(frameworks), len(every), "frameworks"))


def _add_bars(figure: go.Figure, ok: pd.DataFrame, have: list[str], place: dict[str, int], *, legend: bool) -> None:
    medians = ok.groupby("workers")[have].median()
    for name in have:
        figure.add_bar(
            x=[str(workers) for workers in medians.index], y=medians[name].to_numpy(float) * 1e3,
            name=f"{name}: {COMMUNICATION[name]}", legendgroup=name, showlegend=legend,
            marker=bar(list(COMMUNICATION).index(name)),
            hovertemplate=f"{name}: %{{y:.4g}} ms at %{{x}} workers<extra></extra>", **place,
        )  # fmt: skip

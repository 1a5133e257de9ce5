"""Step time: by configuration and by the levels of each factor, with intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from steplab.core.order_statistics import FEWEST, median_interval
from steplab.core.plain_text import plain
from steplab.report.charts.labels import in_a_line, in_lines, most_lines, shortened
from steplab.report.charts.style import MARKER_SIZE, colour, finish, rows_height, whiskers
from steplab.report.data import ReportData, measured
from steplab.report.drawing import Drawn, drawn, omission

Bar = tuple[float, float, float]  # a median and its two ends
MOST_ROWS = 20
MOST_LEVELS = 40
MOST_PANELS = 6
MANY_LEVELS = 12  # more numeric levels than that are points of a random design, not levels
MOST_POINTS = 600


def step_times(data: ReportData) -> Drawn | None:
    """Median step time of each configuration with its 95 % interval, the highest throughput on top."""
    varied, groups = data.analysis.varied, data.analysis.groups[:MOST_ROWS][::-1]
    if not groups:
        return None
    middle = [group.t_iter.median * 1e3 for group in groups]
    ends = [g.t_iter.ends or (g.t_iter.median, g.t_iter.median) for g in groups]
    bars = whiskers(middle, [low * 1e3 for low, _ in ends], [high * 1e3 for _, high in ends])
    # Places, not names, on the axis: two configurations may have the same shortened name.
    figure = go.Figure(
        go.Scatter(
            x=middle, y=list(range(len(groups))), mode="markers", error_x=bars, showlegend=False,
            marker={"color": colour(0), "size": MARKER_SIZE},
            customdata=[[in_a_line(g.factors, varied), _rate(g.throughput)] for g in groups],
            hovertemplate="%{customdata[0]}<br>%{x:.4g} ms%{customdata[1]}<extra></extra>",
        )
    )  # fmt: skip
    texts = [in_lines(group.factors, varied) for group in groups]
    figure.update_yaxes(tickvals=list(range(len(groups))), ticktext=texts)
    figure = finish(figure, "step time [ms]", "", height=rows_height(len(groups), most_lines(texts)))
    return drawn(
        figure, omission(len(groups), len(data.analysis.groups), "configurations", "those on top of the table")
    )


def _rate(throughput: float | None) -> str:
    return f", {throughput:.4g} samples/s" if throughput else ""


def by_factor(data: ReportData) -> Drawn | None:
    """The median step time at every level of each factor, over all other factors, with its 95 % interval."""
    ok = measured(data.trials)
    every = [name for name in data.analysis.varied if name in ok and ok[name].nunique() > 1]
    shown = every[:MOST_PANELS]
    if not shown:
        return None
    columns = min(len(shown), 3)
    rows = -(-len(shown) // columns)
    figure = make_subplots(rows=rows, cols=columns, horizontal_spacing=0.09, vertical_spacing=0.28 / rows)
    for at, name in enumerate(shown):
        place = {"row": at // columns + 1, "col": at % columns + 1}
        known = _of_configurations(data, name) if len(every) == 1 else {}
        figure.add_trace(_panel(ok, name, at, known), **place)
        figure.update_xaxes(title={"text": plain(name), "standoff": 6}, **place)
        if not _is_cloud(ok[name]):
            figure.update_xaxes(type="category", **place)
        figure.update_yaxes(rangemode="tozero", title={"text": "step time [ms]" if at % columns == 0 else ""}, **place)
    return drawn(finish(figure, "", "", height=80 + 250 * rows), omission(len(shown), len(every), "factors"))


def _is_cloud(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) and column.nunique() > MANY_LEVELS)


def _of_configurations(data: ReportData, name: str) -> dict[object, Bar]:
    """The bars of the configurations, which a single factor's levels are."""
    times = {group.factors.get(name): group.t_iter for group in data.analysis.groups}
    return {level: (own.median, *(own.ends or (own.median, own.median))) for level, own in times.items()}


def _bar(times: NDArray[np.float64]) -> Bar:
    """The median of trials of several configurations, with its interval if there are enough of them."""
    median = float(np.median(times))
    return (median, *median_interval(times)) if len(times) >= FEWEST else (median, median, median)


def _panel(ok: pd.DataFrame, name: str, at: int, known: Mapping[object, Bar]) -> go.Scatter:
    """The medians of a factor's levels; for a factor with a range, the trials themselves."""
    times, marker = ok["t_iter"].to_numpy(float) * 1e3, {"color": colour(at), "size": MARKER_SIZE}
    if _is_cloud(ok[name]):
        some = np.linspace(0, len(ok) - 1, min(len(ok), MOST_POINTS)).astype(int)
        small = {"color": colour(at), "size": 5, "opacity": 0.6}
        return go.Scatter(x=ok[name].to_numpy(float)[some], y=times[some], mode="markers", marker=small,
                          showlegend=False, hovertemplate="%{x:.4g}: %{y:.4g} ms<extra></extra>")  # fmt: skip
    levels = sorted(ok[name].dropna().unique(), key=lambda level: (isinstance(level, str), level))[:MOST_LEVELS]
    bars = [known.get(level) or _bar(ok.loc[ok[name] == level, "t_iter"].to_numpy(float)) for level in levels]
    middle, low, high = ([value * 1e3 for value in values] for values in zip(*bars, strict=True))
    return go.Scatter(
        x=[plain(shortened(level, 24)) for level in levels], y=middle, mode="markers", marker=marker, showlegend=False,
        error_y=whiskers(middle, low, high),
        hovertemplate="%{x}: %{y:.4g} ms<extra></extra>",
    )  # fmt: skip

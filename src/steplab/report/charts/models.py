"""Models: predicted against measured, residuals, the scan of the penalty, and the forecast for more workers."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from steplab.core.plain_text import plain
from steplab.report.charts.style import GREY, colour, finish, log_axis, series
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn, omission

MOST_POINTS = 300


def predicted(data: ReportData) -> Drawn | None:
    """Predicted against measured step times beside the identity line, and their ratios."""
    shown = [judged for judged in data.models.judged if np.isfinite(judged.predicted).any()]
    if not shown:
        return None
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.12)
    y = data.models.measured * 1e3
    ends = [float(y.min()), float(y.max())]
    line = {"dash": "dash", "color": GREY, "width": 2}
    figure.add_scatter(x=ends, y=ends, mode="lines", name="measured = predicted", line=line, row=1, col=1)
    figure.add_scatter(x=ends, y=[1, 1], mode="lines", showlegend=False, line=line, row=1, col=2)
    for at, judged in enumerate(shown):
        have = np.flatnonzero(np.isfinite(judged.predicted))
        some = have[np.linspace(0, len(have) - 1, min(len(have), MOST_POINTS)).astype(int)]
        look = {"mode": "markers", "name": plain(judged.name), "legendgroup": judged.name,
                "marker": {**series(at)["marker"], "size": 7, "opacity": 0.75}}  # fmt: skip
        hover = "measured %{x:.4g} ms<br>predicted %{y:.4g} ms<extra>%{fullData.name}</extra>"
        guess = judged.predicted[some] * 1e3
        figure.add_scatter(x=y[some], y=guess, row=1, col=1, hovertemplate=hover, **look)
        hover = "%{x:.4g} ms: predicted %{y:.3g} times as long<extra>%{fullData.name}</extra>"
        figure.add_scatter(x=y[some], y=guess / y[some], row=1, col=2, showlegend=False, hovertemplate=hover, **look)
    figure.update_xaxes(log_axis(y))
    figure.update_yaxes(log_axis(y) | {"title": {"text": "predicted [ms]"}}, row=1, col=1)
    ratios = np.concatenate([judged.predicted * 1e3 / y for judged in shown])
    figure.update_yaxes(log_axis(ratios) | {"title": {"text": "predicted / measured"}}, row=1, col=2)
    most = max(int(np.isfinite(judged.predicted).sum()) for judged in shown)
    figure = finish(figure, "measured step time [ms]", "", height=420)
    return drawn(figure, omission(min(most, MOST_POINTS), most, "trials of each model"))


def penalty(data: ReportData) -> Drawn | None:
    """Held-out accuracy and powers of the generic model against the strength λ of its penalty."""
    rows = data.models.scan
    if not rows:
        return None
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.12)
    for at, kind in enumerate(dict.fromkeys(row.penalty for row in rows)):
        own = [row for row in rows if row.penalty == kind]
        x, look = [row.strength for row in own], {"mode": "lines+markers", "legendgroup": kind, **series(at)}
        powers = [sum(abs(v) for name, v in row.parameters.items() if name.endswith((".p", ".q"))) for row in own]
        figure.add_scatter(x=x, y=[row.r2 for row in own], name=kind.upper(), row=1, col=1, **look)
        figure.add_scatter(x=x, y=powers, name=kind.upper(), showlegend=False, row=1, col=2, **look)
    figure.update_xaxes(type="log", exponentformat="power", dtick=2)
    figure.update_yaxes(title={"text": "R² on held-out rows"}, row=1, col=1)
    figure.update_yaxes(title={"text": "powers: Σ|p|+|q|"}, row=1, col=2)
    return drawn(finish(figure, "strength λ of the penalty", "", height=360))


def forecast(data: ReportData) -> Drawn | None:
    """Predicted step time against workers with 90 % bands, the measured range shaded."""
    shown = data.models.forecasts
    if not shown:
        return None
    figure = go.Figure()
    low, high = data.models.workers_range
    figure.add_vrect(x0=low, x1=high, fillcolor=GREY, opacity=0.15, line_width=0, annotation_text="measured range",
                     annotation_position="top left")  # fmt: skip
    for at, model in enumerate(shown):
        x = model.workers
        if at == 0:
            # Where no interval can be given there is no band.
            told = np.flatnonzero(np.isfinite(model.low) & np.isfinite(model.high)).tolist()
            band = [*(model.high[told] * 1e3), *(model.low[told[::-1]] * 1e3)]
            ends = [x[i] for i in (*told, *told[::-1])]
            figure.add_scatter(x=ends, y=band, fill="toself", fillcolor=colour(0), opacity=0.18, line_width=0,
                               mode="lines", name=f"{plain(model.name)}, 90 % interval", hoverinfo="skip")  # fmt: skip
        figure.add_scatter(
            x=x, y=model.value * 1e3, mode="lines", name=plain(model.name), line=series(at)["line"],
            customdata=np.column_stack([model.low * 1e3, model.high * 1e3]),
            hovertemplate="%{x} workers: %{y:.4g} ms (%{customdata[0]:.4g} to %{customdata[1]:.4g})"
            "<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    points = data.models.forecast_points
    figure.add_scatter(x=points[:, 0], y=points[:, 1] * 1e3, mode="markers", name="measured",
                       marker={"color": GREY, "symbol": "circle-open", "size": 9, "line": {"width": 2}},
                       hovertemplate="%{x} workers: %{y:.4g} ms measured<extra></extra>")  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    figure = finish(figure, "workers", "step time [ms]", height=420)
    return drawn(figure, f"All else as in the fastest configuration: {data.models.forecast_of}.")

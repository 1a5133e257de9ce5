"""Trainings to a target: when each configuration reached it, and the accuracies of every run on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import plotly.graph_objects as go

from steplab.analysis.training import AccuracyCurve, TimeToAccuracy, Training
from steplab.core.trial import Level
from steplab.report.charts.labels import in_a_line, in_lines, most_lines
from steplab.report.charts.small_multiples import grid, some
from steplab.report.charts.style import GREY, MARKER_SIZE, colour, finish, rows_height, series, whiskers
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn, omission

MOST_ROWS = 20
MOST_RUNS = 5  # of a configuration


def time_to_accuracy(data: ReportData) -> Drawn | None:
    """Seconds of training to the target, the soonest on top; a hollow triangle where it was not reached by then."""
    training = data.analysis.training
    if training is None or training.target is None:
        return None
    shown = training.configurations[:MOST_ROWS]
    texts = [in_lines(config.factors, data.analysis.varied) for config in shown]
    figure = go.Figure()
    _reached(figure, [(at, config) for at, config in enumerate(shown) if config.seconds is not None], texts)
    _not_reached(figure, [(at, config) for at, config in enumerate(shown) if config.seconds is None], texts)
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=texts, autorange="reversed")
    figure.update_xaxes(rangemode="tozero")
    title = f"seconds of training to {100 * training.target:.3g} % accuracy"
    figure = finish(figure, title, "", height=rows_height(len(shown), most_lines(texts)))
    return drawn(figure, omission(len(shown), len(training.configurations), "configurations", "the soonest"))


def _reached(figure: go.Figure, rows: list[tuple[int, TimeToAccuracy]], texts: list[str]) -> None:
    known = [(at, config, config.seconds) for at, config in rows if config.seconds is not None]
    middle = [seconds.median for _, _, seconds in known]
    ends = [seconds.ends or (seconds.median, seconds.median) for _, _, seconds in known]
    figure.add_scatter(
        x=middle, y=[at for at, *_ in known], mode="markers", name="reached",
        marker={"color": colour(0), "size": MARKER_SIZE},
        error_x=whiskers(middle, [low for low, _ in ends], [high for _, high in ends]),
        customdata=[[texts[at], f"{config.reached} of {config.runs} runs"] for at, config, _ in known],
        hovertemplate="%{customdata[0]}<br>%{x:.4g} s, %{customdata[1]}<extra></extra>",
    )  # fmt: skip


def _not_reached(figure: go.Figure, rows: list[tuple[int, TimeToAccuracy]], texts: list[str]) -> None:
    """Where a configuration stopped; of those nobody knows when they would have been there."""
    if not rows:
        return
    best = [
        f"not reached after {config.trained_epochs} epochs: {100 * config.best.median:.3g} % at best"
        for _, config in rows
    ]
    figure.add_scatter(
        x=[config.trained_s for _, config in rows], y=[at for at, _ in rows],
        mode="markers+text", name="not reached by then",
        marker={"color": colour(3), "size": MARKER_SIZE + 2, "symbol": "triangle-right-open", "line": {"width": 2}},
        text=[f"{config.reached} of {config.runs} runs" for _, config in rows],
        textposition="middle right", cliponaxis=False,
        customdata=[[texts[at], told] for (at, _), told in zip(rows, best, strict=True)],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    )  # fmt: skip


@dataclass(frozen=True)
class Runs:
    """The runs of one configuration."""

    levels: Mapping[str, Level]
    curves: tuple[AccuracyCurve, ...]


def accuracy_curves(data: ReportData) -> Drawn | None:
    """The validation accuracy of every run against its seconds of training; configurations differ by colour."""
    training = data.analysis.training
    if training is None:
        return None
    every = _runs(training)
    panels = grid(every, data.analysis.varied)
    figure, looks, shown = panels.figure(), dict[str, int](), 0
    for panel in panels.panels:
        for runs in some(panel.lines):
            name = in_a_line(runs.levels, panels.inside)
            new, at = name not in looks, looks.setdefault(name, len(looks))
            for curve in runs.curves[:MOST_RUNS]:
                _add(figure, curve, name, at, panel.place, legend=new and curve is runs.curves[0])
                shown += 1
        if training.target is not None:
            figure.add_hline(y=100 * training.target, line={"dash": "dash", "color": GREY}, **panel.place)
        figure.update_xaxes(title={"text": "seconds of training", "standoff": 6}, rangemode="tozero", **panel.place)
        title = {"text": "validation accuracy [%]" if panel.col == 1 else ""}
        figure.update_yaxes(title=title, **panel.place)
    finish(figure, "", "", height=panels.height + (100 if panels.rows == 1 else 0))
    target = "" if training.target is None else f"Dashed: the target of {100 * training.target:.3g} %."
    return drawn(figure, target, omission(shown, len(training.curves), "runs"))


def _runs(training: Training) -> list[Runs]:
    """The configurations in the order of the ranking."""
    return [
        Runs(config.factors, tuple(curve for curve in training.curves if curve.factors == config.factors))
        for config in training.configurations
    ]


def _add(figure: go.Figure, curve: AccuracyCurve, name: str, at: int, place: dict[str, int], *, legend: bool) -> None:
    look = series(at)
    look["marker"]["size"] = 6
    figure.add_scatter(
        x=[point.seconds for point in curve.points], y=[100 * point.accuracy for point in curve.points],
        mode="lines+markers", name=name, legendgroup=str(at), showlegend=legend, **look, **place,
        customdata=[point.epoch for point in curve.points],
        hovertemplate="epoch %{customdata}: %{y:.3g} % after %{x:.3g} s<extra>%{fullData.name}</extra>",
    )  # fmt: skip

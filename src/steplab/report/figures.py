"""The report's charts as Plotly figures; each takes data and returns a figure, or None if there is nothing to show."""

from __future__ import annotations

import plotly.graph_objects as go

from steplab.analysis.summary import Group
from steplab.analysis.words import NAMES
from steplab.report.data import ReportData, label

# Okabe and Ito's palette, distinguishable with every kind of colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#999999")
PHASES = ("t_io", "t_h2d", "t_md", "t_f", "t_b", "t_c", "t_u", "t_other")
MOST_BARS = 60


def step_times(data: ReportData) -> go.Figure | None:
    """Median step time of each configuration with its 95 % interval."""
    groups = data.analysis.groups[:MOST_BARS][::-1]
    if not groups:
        return None
    middle = [group.t_iter.median * 1e3 for group in groups]
    figure = go.Figure(
        go.Scatter(
            x=middle,
            y=[label(group, data.analysis.varied) for group in groups],
            mode="markers",
            marker={"color": COLOURS[0], "size": 9},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [group.t_iter.high * 1e3 - m for group, m in zip(groups, middle, strict=True)],
                "arrayminus": [m - group.t_iter.low * 1e3 for group, m in zip(groups, middle, strict=True)],
            },
            hovertemplate="%{y}<br>%{x:.3g} ms<extra></extra>",
        )
    )
    return _finish(figure, "median step time in ms, with its 95 % interval", "", rows=len(groups))


def phases(data: ReportData) -> go.Figure | None:
    """Where a step's time goes, stacked."""
    groups = [group for group in data.analysis.groups[:MOST_BARS][::-1] if group.phases]
    if not groups:
        return None
    names = [label(group, data.analysis.varied) for group in groups]
    figure = go.Figure()
    for colour, phase in zip(COLOURS, PHASES, strict=True):
        values = [group.phases.get(phase, 0.0) * 1e3 for group in groups]
        if any(values):
            what = f"{phase}: {NAMES[phase]}"
            hover = f"%{{y}}<br>{phase} %{{x:.3g}} ms<extra></extra>"
            figure.add_bar(x=values, y=names, orientation="h", name=what, marker_color=colour, hovertemplate=hover)
    figure.update_layout(barmode="stack", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    return _finish(figure, "median time of each phase in ms (phased mode)", "", rows=len(groups) + 4)


def speedup(data: ReportData) -> go.Figure | None:
    """Speed-up against the number of workers, one line per configuration, beside the ideal line."""
    lines: dict[str, list[tuple[int, Group]]] = {}
    others = tuple(name for name in data.analysis.varied if name != "workers")
    for group in data.analysis.groups:
        if group.speedup and "workers" in group.factors:
            lines.setdefault(label(group, others), []).append((int(group.factors["workers"]), group))
    most = max((workers for line in lines.values() for workers, _ in line), default=1)
    if most == 1:
        return None
    figure = go.Figure(
        go.Scatter(x=[1, most], y=[1, most], mode="lines", name="ideal", line={"dash": "dash", "color": "#999999"})
    )
    for at, (name, line) in enumerate(sorted(lines.items())):
        _add_line(figure, name, sorted(line, key=lambda one: one[0]), COLOURS[at % 7])
    figure.update_xaxes(dtick=1 if most <= 16 else None)
    return _finish(figure, "workers", "speed-up (throughput against one worker)", rows=14)


def _add_line(figure: go.Figure, name: str, line: list[tuple[int, Group]], colour: str) -> None:
    ratios = [group.speedup for _, group in line if group.speedup]
    figure.add_scatter(
        x=[workers for workers, _ in line],
        y=[ratio.value for ratio in ratios],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [ratio.high - ratio.value for ratio in ratios],
            "arrayminus": [ratio.value - ratio.low for ratio in ratios],
        },
        mode="lines+markers",
        name=name,
        marker_color=colour,
        hovertemplate="%{x} workers: %{y:.2f}<extra>%{fullData.name}</extra>",
    )


def layers(data: ReportData) -> go.Figure | None:
    """Forward and backward time of each layer."""
    rows = data.layers[::-1]
    if not len(rows):
        return None
    figure = go.Figure()
    for colour, column, name in ((COLOURS[3], "t_f", "forward"), (COLOURS[4], "t_b", "backward")):
        figure.add_bar(x=rows[column] * 1e3, y=rows["layer"], orientation="h", name=name, marker_color=colour)
    figure.update_layout(barmode="stack", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    return _finish(figure, f"median time in ms ({data.layers_of})", "", rows=len(rows) + 2)


def effects(data: ReportData) -> go.Figure | None:
    """By which factor each level multiplies the step time."""
    shown = data.analysis.effects[::-1]
    if not shown:
        return None
    figure = go.Figure(
        go.Scatter(
            x=[effect.ratio for effect in shown],
            y=[f"{effect.factor}: {effect.level} instead of {effect.reference}" for effect in shown],
            mode="markers",
            marker={"color": [COLOURS[0] if effect.differs else COLOURS[7] for effect in shown], "size": 9},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [effect.high - effect.ratio for effect in shown],
                "arrayminus": [effect.ratio - effect.low for effect in shown],
            },
        )
    )
    figure.add_vline(x=1.0, line={"dash": "dash", "color": "#999999"})
    figure.update_xaxes(type="log")
    return _finish(figure, "ratio of step times, with its 95 % interval (grey: may be no effect)", "", rows=len(shown))


CHARTS = (
    ("Step time", step_times, "No trial has been measured."),
    ("Where the time goes", phases, "Phases were not measured: set phases = true in [measure]."),
    ("Speed-up", speedup, "Speed-up needs trials with one and with several workers."),
    ("Effects of the factors", effects, "Effects need a factor with several levels and more trials than levels."),
    ("Layers", layers, "No layer was timed: the framework cannot, or phases = false."),
)


def _finish(figure: go.Figure, x: str, y: str, rows: int) -> go.Figure:
    """One look for all charts; the page sets the colours of light and dark."""
    figure.update_layout(
        height=140 + 26 * max(rows, 5),
        margin={"l": 10, "r": 20, "t": 30, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13},
        xaxis={"title": {"text": x}, "automargin": True, "gridcolor": "rgba(128,128,128,0.25)", "zeroline": False},
        yaxis={"title": {"text": y}, "automargin": True, "gridcolor": "rgba(128,128,128,0.25)", "zeroline": False},
    )
    return figure

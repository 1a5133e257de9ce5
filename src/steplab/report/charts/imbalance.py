"""Imbalance by rank: a heat map over iterations of one trial, and one step of it as a timeline."""

from __future__ import annotations

import plotly.graph_objects as go

from steplab.report.charts.style import bar, finish, rows_height
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn, drawn, omission
from steplab.report.ranks import RankTimes
from steplab_worker.phases import TIMED, WORDS


def heat_map(data: ReportData) -> Drawn | None:
    """Compute time of each rank in each iteration of the trial that is balanced worst."""
    ranks = data.ranks
    if ranks is None:
        return None
    figure = go.Figure(
        go.Heatmap(
            z=ranks.compute * 1e3, x=ranks.iterations, y=[str(rank) for rank in ranks.ranks], colorscale="Cividis",
            colorbar={"title": {"text": "compute [ms]"}, "thickness": 14},
            hovertemplate="rank %{y}, iteration %{x}: %{z:.4g} ms<extra></extra>",
        )
    )  # fmt: skip
    figure.update_yaxes(type="category", autorange="reversed")
    figure = finish(figure, "iteration", "rank", height=rows_height(len(ranks.ranks)) + 60)
    thinned = omission(len(ranks.iterations), ranks.of_iterations, "iterations", "evenly spaced")
    return drawn(figure, f"The trial: {ranks.of}.", _ranks_shown(ranks), thinned)


def timeline(data: ReportData) -> Drawn | None:
    """The phases of each rank in a typical step, one after the other."""
    ranks = data.ranks
    if ranks is None:
        return None
    names = [f"rank {rank}" for rank in ranks.ranks]
    figure = go.Figure()
    for at, phase in enumerate(TIMED):
        if phase in ranks.step:
            figure.add_bar(
                x=ranks.step[phase] * 1e3, y=names, orientation="h", name=f"{phase}: {WORDS[phase]}", marker=bar(at),
                hovertemplate=f"%{{y}}: {phase} %{{x:.4g}} ms<extra></extra>",
            )  # fmt: skip
    figure.update_layout(barmode="stack", bargap=0.35)
    figure.update_yaxes(autorange="reversed")
    figure = finish(figure, f"time in iteration {ranks.step_at} [ms]", "", height=rows_height(len(names)))
    return drawn(figure, f"The trial: {ranks.of}.", _ranks_shown(ranks))


def _ranks_shown(ranks: RankTimes) -> str:
    return omission(len(ranks.ranks), ranks.of_ranks, "ranks", "the first ones")

"""Imbalance by rank: a heat map over iterations of one trial, and one step of it as a timeline."""

from __future__ import annotations

import plotly.graph_objects as go

from steplab.core.plain_text import plain
from steplab.report.charts.style import bar, finish, rows_height
from steplab.report.data import ReportData
from steplab_worker.phases import TIMED, WORDS


def heat_map(data: ReportData) -> go.Figure | None:
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
    return finish(figure, f"iteration ({plain(ranks.of)})", "rank", height=rows_height(len(ranks.ranks)) + 60)


def timeline(data: ReportData) -> go.Figure | None:
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
    x = f"time in iteration {ranks.step_at} [ms] ({plain(ranks.of)})"
    return finish(figure, x, "", height=rows_height(len(names)) + 90)

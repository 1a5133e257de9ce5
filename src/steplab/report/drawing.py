"""A drawn chart: the figure, and what a reader must know about it beside how to read it."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go


@dataclass(frozen=True)
class Drawn:
    """A figure with remarks: of which configuration it is, and what was left out of it."""

    figure: go.Figure
    remarks: tuple[str, ...] = ()


def drawn(figure: go.Figure, *remarks: str) -> Drawn:
    """A chart with those remarks that say something."""
    return Drawn(figure, tuple(remark for remark in remarks if remark))


def omission(shown: int, there: int, what: str, which: str = "") -> str:
    """What a chart leaves out; empty if it shows everything.

    >>> omission(8, 20, "series", "the best, the worst and some between"), omission(3, 3, "series")
    ('8 of 20 series are shown: the best, the worst and some between.', '')
    """
    if shown >= there:
        return ""
    return f"{shown} of {there} {what} are shown{f': {which}' if which else ''}."

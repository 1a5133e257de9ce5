"""Trials of kind `step`: the time of an iteration, and where it goes."""

from __future__ import annotations

from steplab.kinds.base import TrialKind


class StepKind(TrialKind):
    """Iterations in native mode and, if asked, in phased mode and with communication watched."""

    name = "step"
    summary = "time of an iteration"
    ability = "step"


KIND = StepKind

"""How long torch.compile took in a trial, and what it compiled once more because something had changed."""

from __future__ import annotations

import torch
from torch._dynamo import utils

from steplab_worker.messages import Compiled


def begin() -> None:
    """Forget what earlier trials compiled: their code would count as this trial's, and after some even refuse more."""
    torch._dynamo.reset()
    utils.clear_compilation_metrics()


def compiled() -> Compiled:
    """Since then: seconds of all compilations, forward and backward, and the reasons of those that were not the first.

    PyTorch's guards name what changed: `0/0: tensor 'x' size mismatch at index 0. expected 3, actual 5`.
    """
    metrics = utils.get_compilation_metrics()
    seconds = sum((metric.duration_us or 0) for metric in metrics) / 1e6
    reasons = [str(metric.recompile_reason).partition(": ")[2] for metric in metrics if metric.recompile_reason]
    return Compiled(seconds, [reason.strip()[:200] for reason in reasons])

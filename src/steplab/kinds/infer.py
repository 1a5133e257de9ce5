"""Trials of kind `infer`: latency and throughput of inference."""

from __future__ import annotations

from steplab.core.resolution import Resolved
from steplab.kinds.base import WARMUP_ITERATIONS, TrialKind


class InferKind(TrialKind):
    """Batches through the network, forward only; each rank on its own."""

    name = "infer"
    summary = "latency"
    ability = "infer"
    learns = False
    native_phases = ("t_io", "t_h2d", "t_f")

    def iterations(self, resolved: Resolved) -> int:
        """One mode, whatever the study says of phases."""
        return WARMUP_ITERATIONS + self.measure.iterations


KIND = InferKind

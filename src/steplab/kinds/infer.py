"""Trials of kind `infer`: latency and throughput of inference."""

from __future__ import annotations

from steplab.core.resolution import Resolved
from steplab.kinds.base import TrialKind


class InferKind(TrialKind):
    """Batches through the network, forward only; each rank on its own."""

    name = "infer"
    summary = "latency"
    ability = "infer"
    learns = False
    native_phases = ("t_io", "t_h2d", "t_f")

    def iterations(self, resolved: Resolved) -> int:
        """One mode, whatever the study says of phases."""
        return self.warmup_iterations + self.measure.iterations


KIND = InferKind

"""Trials of kind `step`: native iterations and, if asked, phases, layers, and the overlap of communication."""

from __future__ import annotations

from typing import Dict, Optional

from steplab_worker.adapter import Session, Source
from steplab_worker.job import TrialJob
from steplab_worker.loop import Ask, DifferenceBlock, NativeBlock, PhasedBlock, TimedBlock, WatchedBlock, run_mode
from steplab_worker.messages import LayerSeconds, Measurement, ModeTimes

LAYER_ITERATIONS = 5


def run(job: TrialJob, session: Session, ask: Ask, rank: int) -> Measurement:
    """Run one trial as the laboratory directs; its raw times by mode."""
    source = session.source()
    try:
        modes = {"native": run_mode("native", NativeBlock(session, source, job.accumulate), ask)}
        layers, loss = None, session.loss()
        if not job.phases or not (session.has_phases or session.overlap_method != "none"):
            return Measurement(modes, loss)
        if session.has_phases:
            modes["phased"] = run_mode("phased", PhasedBlock(session, source, job.accumulate), ask)
            layers, loss = _layers(session, source), session.loss()
        if session.overlap_method != "none":
            block = _overlap(session, source, job.accumulate, modes.get("phased"))
            modes["overlap"] = run_mode("overlap", block, ask)
        return Measurement(modes, loss, layers, _methods(session))
    finally:
        source.close()


def _methods(session: Session) -> Dict[str, str]:
    """How layers and overlap were measured, for the record."""
    return {"layer_method": session.layer_method, "overlap_method": session.overlap_method}


def _overlap(session: Session, source: Source, accumulate: int, phased: Optional[ModeTimes]) -> TimedBlock:
    """The way in which a session can tell how much communication is in flight, and how much is exposed."""
    if session.overlap_method == "difference" and phased is not None:
        return DifferenceBlock(session, source, accumulate, phased)
    return WatchedBlock(session, source, accumulate)


def _layers(session: Session, source: Source) -> Optional[Dict[str, LayerSeconds]]:
    """Seconds per layer of a few iterations, where the framework lets us."""
    layers: Dict[str, LayerSeconds] = {}
    for _ in range(LAYER_ITERATIONS):
        times = session.layer_times(source.next())
        if not times:
            return None
        for name, seconds in times.items():
            layer = layers.setdefault(name, LayerSeconds([], []))
            layer.t_f.append(seconds["t_f"])
            layer.t_b.append(seconds["t_b"])
    return layers

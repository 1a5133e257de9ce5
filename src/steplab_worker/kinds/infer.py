"""Trials of kind `infer`: batches through the network, forward only."""

from __future__ import annotations

from steplab_worker.adapter import Session
from steplab_worker.job import TrialJob
from steplab_worker.loop import Ask, Columns, TimedBlock, run_mode
from steplab_worker.messages import Measurement


def run(job: TrialJob, session: Session, ask: Ask, rank: int) -> Measurement:
    """Run one trial as the laboratory directs; its raw times."""
    source = session.source()
    try:
        return Measurement({"native": run_mode("native", InferBlock(session, source), ask)}, session.loss())
    finally:
        source.close()


class InferBlock(TimedBlock):
    """An inference's latency, t_iter = t_h2d + t_f, from the batch in memory to the outputs; t_io comes before it."""

    def __call__(self, iterations: int) -> Columns:
        """Run so many; their times, column by column."""
        session, source, clock = self.session, self.source, self.session.clock
        columns: Columns = {"t_iter": []}
        for _ in range(iterations):
            start = clock()
            batch = source.next()
            read = clock()
            session.load(batch)
            session.synchronize()
            loaded = clock()
            session.infer()
            session.synchronize()
            done = clock()
            for name, seconds in (("t_io", read - start), ("t_h2d", loaded - read), ("t_f", done - loaded)):
                columns.setdefault(name, []).append(seconds)
            columns["t_iter"].append(done - read)
        return columns

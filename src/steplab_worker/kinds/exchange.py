"""Trials of kind `exchange`: the framework's own collective over the network's gradients, and nothing else.

Gradients are made once. Then, in each iteration, the ranks meet and exchange them (t_iter), by the same calls as in a
phased step: what is measured is the collective as this framework's adapter uses it, its copies included. Beside it goes
what the exchange took of the CPU (t_cpu), and the time of as many bytes over a plain TCP line from the first rank to
the last (t_pair: half of there and back; 0 where it was not looked at, which is after the first few exchanges).
"""

from __future__ import annotations

import time
from typing import Dict

from steplab_worker import pair
from steplab_worker.adapter import Session, Source
from steplab_worker.job import TrialJob
from steplab_worker.loop import Ask, Columns, TimedBlock, run_mode
from steplab_worker.messages import Measurement
from steplab_worker.pair import Pair


def run(job: TrialJob, session: Session, ask: Ask, rank: int) -> Measurement:
    """Run one trial as the laboratory directs; its raw times."""
    line = pair.connect(ask, session.placement, rank)
    source = session.source()
    try:
        block = ExchangeBlock(session, source, line, rank, int(job.own["message_bytes"]))
        return Measurement({"native": run_mode("native", block, ask)}, 0.0)
    finally:
        source.close()
        line.close()


PAIRS = 6  # exchanges of a trial with a look at the plain line: on slow lines it takes as long as they do


class ExchangeBlock(TimedBlock):
    """Exchanges, each begun by all ranks together."""

    def __init__(self, session: Session, source: Source, line: Pair, rank: int, message_bytes: int):
        super().__init__(session, source)
        self.line, self.rank, self.message_bytes = line, rank, message_bytes
        self.prepared = False

    def _prepare(self) -> None:
        """Make the gradients that are exchanged, in parts: a whole step would exchange them itself."""
        session, self.prepared = self.session, True
        session.enter("phased")
        session.load(self.source.next())
        session.forward()
        session.backward()
        session.synchronize()

    def __call__(self, iterations: int) -> Columns:
        """Run so many; their times, column by column."""
        if not self.prepared:
            self._prepare()
        columns: Columns = {"t_iter": [], "t_cpu": [], "t_pair": []}
        for _ in range(iterations):
            for name, seconds in self._exchange().items():
                columns[name].append(seconds)
        return columns

    def _exchange(self) -> Dict[str, float]:
        session, clock = self.session, self.session.clock
        self.source.next()
        session.meet()
        session.synchronize()
        start, cpu = clock(), time.process_time()
        session.exchange()
        session.synchronize()
        seconds = {"t_iter": clock() - start, "t_cpu": time.process_time() - cpu}
        session.meet()
        session.synchronize()
        return dict(seconds, t_pair=self._there_and_back() / 2)

    def _there_and_back(self) -> float:
        """Seconds of the message to the last rank and back; 0 in ranks that only look on."""
        self.done += 1
        if self.line.line is None or self.done > PAIRS:
            return 0.0
        start = time.perf_counter()
        steps = [self.line.send, self.line.receive] if self.rank == 0 else [self.line.receive, self.line.send]
        for step in steps:
            step(self.message_bytes)
        return time.perf_counter() - start

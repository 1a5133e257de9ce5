"""The measuring loop: it times iterations and phases, on the clock of the session.

What runs inside of a step, layers and collectives, is timed by the adapters; `ceilings` knows no steps.

The laboratory says how many iterations to run next and whether they count (warm-up or measured); the loop runs them
and sends their times. In `native` mode there is one stamp per iteration (a clock read, or an event of a GPU); in
`phased` mode one per phase. Mode `overlap` comes last: native steps whose collectives are watched, where several ranks
work together.
"""

from __future__ import annotations

import statistics
from typing import Any, Callable, Dict, List, Tuple, Type

from steplab_worker.adapter import Session, Source
from steplab_worker.messages import Block, Iterate, ModeName, ModeTimes
from steplab_worker.phases import TIMED

Ask = Callable[[Block, Type[Iterate]], Iterate]
Columns = Dict[str, List[float]]
BARRIERS = 15  # in a row, at the start of a phased block, to know what one costs


def run_mode(mode: ModeName, run: "TimedBlock", ask: Ask) -> ModeTimes:
    """Blocks of iterations until the laboratory asks for no more."""
    run.session.enter(mode)
    columns: Columns = {"t_iter": []}
    warmup: List[bool] = []
    block: Columns = {"t_iter": []}
    while True:
        order = ask(Block(mode, block["t_iter"]), Iterate)
        block = run(order.iterations)
        for name, values in block.items():
            columns.setdefault(name, []).extend(values)
        warmup.extend([order.warmup] * len(block["t_iter"]))
        if order.last or not order.iterations:
            return ModeTimes(columns, warmup)


class TimedBlock:
    """A way to run a number of iterations and time them."""

    def __init__(self, session: Session, source: Source, accumulate: int = 1):
        self.session, self.source, self.accumulate = session, source, accumulate
        self.done = 0

    def _last(self) -> bool:
        """Whether this iteration ends an accumulation."""
        self.done += 1
        return self.done % self.accumulate == 0

    def __call__(self, iterations: int) -> Columns:
        """Run so many; their times, column by column."""
        raise NotImplementedError


class NativeBlock(TimedBlock):
    """Whole steps, with one stamp for each."""

    def __call__(self, iterations: int) -> Columns:
        """Run so many; their times, column by column."""
        session, source = self.session, self.source
        session.synchronize()
        stamps = [session.stamp()]
        for _ in range(iterations):
            session.step(source.next(), self._last())
            stamps.append(session.stamp())
        return {"t_iter": session.seconds(stamps)}


class PhasedBlock(TimedBlock):
    """Iterations in parts. What a barrier itself costs is neither waiting nor a part of the step: we added it."""

    meetings = 0  # barriers of the iteration under way

    def __call__(self, iterations: int) -> Columns:
        """Run so many; their times, column by column."""
        columns: Columns = {name: [] for name in ("t_iter", *TIMED, "t_barrier")}
        barrier = self._barrier() if iterations else 0.0
        self.session.synchronize()
        start = self.session.clock()
        for _ in range(iterations):
            self.meetings = 0
            seconds = self._iteration(start)
            now = self.session.clock()
            seconds["t_barrier"] = min(barrier * self.meetings, seconds["t_wait"])
            seconds["t_wait"] -= seconds["t_barrier"]
            seconds["t_iter"] = now - start - seconds["t_barrier"]
            for name, values in columns.items():
                values.append(seconds[name])
            start = now
        return columns

    def _barrier(self) -> float:
        """The median cost of a barrier that all ranks reach together: one after the other."""
        stamps = []
        for _ in range(BARRIERS + 1):
            self.session.meet()
            self.session.synchronize()
            stamps.append(self.session.clock())
        return statistics.median(after - before for before, after in zip(stamps, stamps[1:]))

    def _iteration(self, before: float) -> Dict[str, float]:
        """One iteration in parts, the first from `before` on: seconds of each phase."""
        session, clock = self.session, self.session.clock
        seconds = dict.fromkeys(TIMED, 0.0)
        self.source.divide()
        divided = clock()
        batch = self.source.next()
        now = clock()
        seconds["t_md"], seconds["t_io"] = divided - before, now - divided
        for name, part in self._parts(batch):
            part()
            session.synchronize()
            before, now = now, clock()
            within = session.within()
            seconds[name] += now - before - within.waited - within.moving
            seconds["t_wait"] += within.waited
            seconds["t_move"] += within.moving
            self.meetings += within.meetings + (name == "t_wait")
        return seconds

    def _parts(self, batch: Any) -> List[Tuple[str, Callable[[], Any]]]:
        """What happens to a batch, in order."""
        session = self.session
        load = session.bring if session.splits else session.load
        parts: List[Tuple[str, Callable[[], Any]]] = [("t_h2d", lambda: load(batch))]
        if session.splits:
            parts.append(("t_md", session.split))
        parts += [("t_f", session.forward), ("t_b", session.backward)]
        if self._last():
            if not session.exchanges_within:
                parts += [("t_wait", session.wait), ("t_move", session.exchange)]
            parts.append(("t_u", session.update))
        return parts


class WatchedBlock(NativeBlock):
    """Native steps; the session saw their collectives begin and end."""

    def __call__(self, iterations: int) -> Columns:
        """Run so many; their times, column by column."""
        columns: Columns = {"t_iter": [], "t_comm": [], "t_exposed": []}
        for _ in range(iterations):
            columns["t_iter"] += super().__call__(1)["t_iter"]
            total, exposed = self.session.communication()
            columns["t_comm"].append(total)
            columns["t_exposed"].append(exposed)
        return columns


class DifferenceBlock(TimedBlock):
    """Steps with and without their exchange in turn, each begun by all ranks together (`t_alone`: without).

    What is exposed is the difference of the two medians, for single differences are mostly noise; what is in flight
    is t_wait + t_move of phased mode, iteration by iteration.
    """

    def __init__(self, session: Session, source: Source, accumulate: int, phased: ModeTimes):
        super().__init__(session, source, accumulate)
        columns, counts = phased.columns, [not warm for warm in phased.warmup]
        total = [wait + move for wait, move in zip(columns["t_wait"], columns["t_move"])]
        self.total = [seconds for seconds, counted in zip(total, counts) if counted]

    def __call__(self, iterations: int) -> Columns:
        """Run so many; their times, column by column."""
        columns: Columns = {"t_iter": [], "t_alone": [], "t_comm": []}
        for iteration in range(iterations):
            last = self._last()
            columns["t_iter"].append(self._timed(self.session.step, last))
            columns["t_alone"].append(self._timed(self.session.step_alone, last))
            columns["t_comm"].append(self.total[iteration % len(self.total)])
        return dict(columns, t_exposed=self._exposed(columns["t_iter"], columns["t_alone"]))

    def _timed(self, step: Callable[[Any, bool], None], last: bool) -> float:
        """Reading the batch is left out: both kinds of step do it alike."""
        session, batch = self.session, self.source.next()
        session.meet()
        session.synchronize()
        start = session.clock()
        step(batch, last)
        session.synchronize()
        return session.clock() - start

    def _exposed(self, together: List[float], alone: List[float]) -> List[float]:
        """The difference of the medians for the iterations that exchange, nothing for the others."""
        k = self.accumulate
        exchanging = together[k - 1 :: k], alone[k - 1 :: k]
        difference = max(0.0, statistics.median(exchanging[0]) - statistics.median(exchanging[1]))
        return [difference if (iteration + 1) % k == 0 else 0.0 for iteration in range(len(together))]

"""The measuring loop: the only place that reads a clock.

The laboratory says how many iterations to run next and whether they count (warm-up or measured); the loop runs them
and sends their times. In `native` mode there is one clock read per iteration; in `phased` mode one per phase.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from steplab_worker.adapter import Session, Source
from steplab_worker.channel import Document
from steplab_worker.job import TrialJob

Ask = Callable[[Document], Document]
Columns = Dict[str, List[float]]
PHASES = ("t_io", "t_h2d", "t_f", "t_b", "t_wait", "t_move", "t_u")
LAYER_ITERATIONS = 5


def measure(job: TrialJob, session: Session, ask: Ask) -> Document:
    """Run one trial as the laboratory directs; its raw times by mode."""
    source = session.source()
    try:
        if job.kind == "infer":
            modes = {"native": _run_mode("native", _InferBlock(session, source), ask)}
        else:
            modes = {"native": _run_mode("native", _NativeBlock(session, source, job.accumulate), ask)}
            if job.phases:
                modes["phased"] = _run_mode("phased", _PhasedBlock(session, source, job.accumulate), ask)
        layers = _layers(session, source) if job.phases and job.kind != "infer" else None
        return {"modes": modes, "layers": layers, "loss": session.loss()}
    finally:
        source.close()


def _run_mode(mode: str, run: "_Block", ask: Ask) -> Document:
    """Blocks of iterations until the laboratory asks for no more."""
    run.session.enter(mode)
    columns: Columns = {"t_iter": []}
    warmup: List[bool] = []
    block: Columns = {"t_iter": []}
    while True:
        answer = ask({"say": "block", "mode": mode, "t_iter": block["t_iter"]})
        block = run(answer["iterations"])
        for name, values in block.items():
            columns.setdefault(name, []).extend(values)
        warmup.extend([answer["warmup"]] * len(block["t_iter"]))
        if answer["last"] or not answer["iterations"]:
            return {"columns": columns, "warmup": warmup}


class _Block:
    """A way to run a number of iterations and time them."""

    def __init__(self, session: Session, source: Source, accumulate: int = 1):
        self.session, self.source, self.accumulate = session, source, accumulate
        self.done = 0

    def _last(self) -> bool:
        """Whether this iteration ends an accumulation."""
        self.done += 1
        return self.done % self.accumulate == 0

    def __call__(self, iterations: int) -> Columns:
        raise NotImplementedError


class _NativeBlock(_Block):
    def __call__(self, iterations: int) -> Columns:
        session, source, clock, times = self.session, self.source, self.session.clock, []
        session.synchronize()
        before = clock()
        for _ in range(iterations):
            session.step(source.next(), self._last())
            session.synchronize()
            now = clock()
            times.append(now - before)
            before = now
        return {"t_iter": times}


class _InferBlock(_Block):
    """An inference's latency, t_iter = t_h2d + t_f, from the batch in memory to the outputs; t_io comes before it."""

    def __call__(self, iterations: int) -> Columns:
        session, source, clock = self.session, self.source, self.session.clock
        columns: Columns = {"t_iter": [], "t_io": [], "t_h2d": [], "t_f": []}
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
                columns[name].append(seconds)
            columns["t_iter"].append(done - read)
        return columns


class _PhasedBlock(_Block):
    def __call__(self, iterations: int) -> Columns:
        columns: Columns = {name: [] for name in ("t_iter", *PHASES)}
        self.session.synchronize()
        start = self.session.clock()
        for _ in range(iterations):
            marks = self._iteration(start)
            for name, before, after in zip(PHASES, marks, marks[1:]):
                columns[name].append(after - before)
            now = self.session.clock()
            columns["t_iter"].append(now - start)
            start = now
        return columns

    def _iteration(self, start: float) -> List[float]:
        """One iteration in parts: the clock before it and after each phase."""
        session, clock = self.session, self.session.clock
        marks, last = [start], self._last()
        batch = self.source.next()
        marks.append(clock())
        parts: List[Callable[[], Any]] = [lambda: session.load(batch), session.forward, session.backward]
        if last:
            parts += [session.wait, session.exchange, session.update]
        for part in parts:
            part()
            session.synchronize()
            marks.append(clock())
        return marks + [marks[-1]] * (len(PHASES) + 1 - len(marks))


def _layers(session: Session, source: Source) -> Optional[List[Dict[str, Any]]]:
    """Seconds per layer of a few iterations, where the framework lets us."""
    rows = []
    for iteration in range(LAYER_ITERATIONS):
        times = session.layer_times(source.next())
        if times is None:
            return None
        rows += [dict(layer=name, iteration=iteration, **seconds) for name, seconds in times.items()]
    return rows

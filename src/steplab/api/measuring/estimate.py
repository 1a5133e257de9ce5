"""How long the trials that are left will take: a guess from the networks' sizes, corrected by what trials took.

The guess of a trial is a fixed part (a step compiled, a pass to warm up), its iterations' FLOPs, and its share in the
start of ranks, which several trials of a block use. What trials and starts really took corrects it: those of the same
framework, network and number of workers most, those of the same framework less, all others least. Each level counts as
one trial of the level above it until it has trials of its own, so an estimate moves as soon as there is something to
learn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from steplab.api.measuring.durations import DURATIONS, Took
from steplab.api.measuring.shape_memory import Shape
from steplab.core import catalogue
from steplab.core.record import Head
from steplab.core.resolution import Resolved, graph_of, resolve
from steplab.core.trial import Config
from steplab.costs.network import cost
from steplab.costs.operation import from_graph
from steplab.design.plan import Plan
from steplab.runner.jobs import GROUP_FACTORS, group_key
from steplab.runner.ranks.pool import MOST_GROUPS
from steplab.study.sections import Study
from steplab_worker.graph import Graph

MOST_EXACT = 2000  # trials of a plan that are looked at one by one; of more, some
MOST_FINISHED = 500  # records that tell how long the others take
MOST_GUESSED = 200  # configurations that stand for all of a large plan
REAL_S, VIRTUAL_S = 3.0, 0.05  # a trial's fixed part: in a framework, and on a virtual clock
START_S, VIRTUAL_START_S = 6.0, 0.5  # ranks started, a framework imported
SHORTEST_START_S = 0.3  # a shorter pause between two trials was none
STARTS = "(ranks started)"  # stands in the place of a network
ASSUMED_FLOPS_PER_S = 2e10  # one core, for the first guess only
ASSUMED_OVERHEAD_S = 2e-3  # of an iteration
UNKNOWN_FLOPS = 1e8  # of a sample, in a user's own network
LONGEST_START_S = 180.0  # a longer pause between two records was no start of ranks
OTHER_STUDIES = 5.0  # trials that the past counts for at most


@dataclass(frozen=True)
class Guess:
    """A trial before it ran: what it is like, and its seconds by its size, and those of a start of its ranks."""

    shape: Shape
    seconds: float
    start_s: float

    @property
    def start(self) -> Shape:
        """What the start of its ranks is like."""
        return self.shape._replace(network=STARTS)


@dataclass
class Expectation:
    """The seconds of trials that have not run, learned from those that have."""

    study: Study
    per_start: float = 1.0  # trials that use the same ranks, one after the other
    took: dict[Shape, Took] = field(default_factory=dict)  # in this folder
    before: Mapping[Shape, Took] = field(default_factory=DURATIONS.read)  # in other studies here: few count
    _guesses: dict[tuple[tuple[str, object], ...], Guess] = field(default_factory=dict)
    _some: dict[str, Guess] = field(default_factory=dict)  # of a large plan
    _flops: dict[int, float] = field(default_factory=dict)  # of a sample, by the network's graph
    _graphs: list[Graph] = field(default_factory=list)  # held, so that no other takes their place

    def __post_init__(self) -> None:
        self.before = {shape: took.at_most(OTHER_STUDIES) for shape, took in self.before.items()}

    @property
    def basis(self) -> str:
        """What the estimate comes from."""
        if self.took:
            return "finished trials"
        known = bool(self.before.keys() & {guess.shape for guess in self._guesses.values()})
        return "earlier studies on this machine" if known else "a rough guess from the networks' sizes"

    def learn(self, config: Config, seconds: float, start_s: float = 0.0) -> None:
        """A trial took so long, and so long was waited for its ranks before."""
        guess = self.guess(config)
        new = {guess.shape: Took(1.0, seconds, guess.seconds)}
        if SHORTEST_START_S <= start_s <= LONGEST_START_S:
            new[guess.start] = Took(1.0, start_s, guess.start_s)
        for shape, took in new.items():
            self.took[shape] = self.took.get(shape, Took()).plus(took)

    def learn_from(self, heads: Iterable[Head]) -> None:
        """Records of this folder: what lies between the beginnings of two is a trial and the start of the next."""
        ordered = sorted(heads, key=lambda head: head.started)
        for before, head in zip([None, *ordered], ordered, strict=False):
            self.learn(head.config, head.seconds, _pause(before, head))

    def guess(self, config: Config) -> Guess:
        """A trial's shape and its seconds by its size, found out once."""
        key = tuple(sorted(config.items()))
        if key not in self._guesses:
            self._guesses[key] = self._guess(resolve(config))
        return self._guesses[key]

    def _guess(self, resolved: Resolved) -> Guess:
        shape = Shape(resolved.framework, resolved.network, resolved.workers)
        virtual = not catalogue.framework(resolved.framework).needs_environment
        if virtual or self.study.kind.unsupported(resolved):  # what cannot be run is a record at once
            return Guess(shape, VIRTUAL_S, VIRTUAL_START_S)
        iteration = ASSUMED_OVERHEAD_S + self._sample_flops(resolved) * resolved.batch_size / ASSUMED_FLOPS_PER_S
        return Guess(shape, REAL_S + self.study.kind.iterations(resolved) * iteration, START_S)

    def _sample_flops(self, resolved: Resolved) -> float:
        """FLOPs of a sample, forward and backward; counted once for each graph."""
        graph = graph_of(resolved)
        if graph is None:
            return UNKNOWN_FLOPS
        if id(graph) not in self._flops:
            totals = cost(from_graph(graph, 1)).totals
            self._graphs.append(graph)
            self._flops[id(graph)] = float(totals.forward_flops + totals.backward_flops)
        return self._flops[id(graph)]

    def seconds(self, guesses: Iterable[Guess]) -> float:
        """The seconds of these trials together."""
        return self.corrected(self.guessed(guesses))

    def guessed(self, guesses: Iterable[Guess]) -> dict[Shape, float]:
        """The guessed seconds of these trials together, and of the starts of their ranks, by shape."""
        totals: dict[Shape, float] = {}
        for guess in guesses:
            totals[guess.shape] = totals.get(guess.shape, 0.0) + guess.seconds
            totals[guess.start] = totals.get(guess.start, 0.0) + guess.start_s / self.per_start
        return totals

    def corrected(self, guessed: Mapping[Shape, float]) -> float:
        """Guessed seconds, corrected by what has been learned."""
        return sum(total * self._correction(shape) for shape, total in guessed.items())

    def _correction(self, shape: Shape) -> float:
        """By how much the guess is wrong for trials of a shape."""
        known = [*self.before.items(), *self.took.items()]
        known = [(other, took) for other, took in known if (other.network == STARTS) == (shape.network == STARTS)]
        correction = 1.0
        for level in (
            [took for _, took in known],
            [took for other, took in known if other.framework == shape.framework],
            [took for other, took in known if other == shape],
        ):
            correction = _corrected(correction, level)
        return correction

    def left(self, trials: Plan, done: Set[str], limit: int | None = None) -> float:
        """The seconds of the trials of a plan that are not done, the first `limit` of them."""
        number = len(trials) - len(done)
        some = number if limit is None else min(number, limit)
        guesses = self.guesses(trials, done)
        return self.seconds(guesses.values()) / max(1, len(guesses)) * some

    def guesses(self, trials: Plan, done: Set[str]) -> dict[str, Guess]:
        """The trials that are not done, each by its id; of a large plan some that stand for all."""
        if len(trials) <= MOST_EXACT:
            return {trial.id: self.guess(trial.config) for trial in trials.without(done)}
        if not self._some:
            rows = np.random.default_rng(0).choice(len(trials.configurations), MOST_GUESSED)
            self._some = {str(row): self.guess(trials.configurations[int(row)]) for row in rows}
        return self._some


def _corrected(above: float, level: list[Took]) -> float:
    """The correction of a level: its own trials, and one more as the level above would have it."""
    trials = sum(took.trials for took in level)
    if not trials:
        return above
    seconds, guessed = sum(took.seconds for took in level), sum(took.guessed for took in level)
    typical = guessed / trials
    return (seconds + above * typical) / (guessed + typical)


def _pause(before: Head | None, head: Head) -> float:
    """The seconds between the end of the trial before and the beginning of a trial's measurement."""
    if before is None:
        return 0.0
    try:
        apart = datetime.fromisoformat(head.started) - datetime.fromisoformat(before.started)
    except (TypeError, ValueError):  # other programs' records
        return 0.0
    return apart.total_seconds() - before.seconds


def trials_per_start(study: Study, trials: Plan) -> float:
    """How many trials use the same ranks: those of a block that need the same ones, as long as all are kept warm."""
    rows = trials.configurations.distinct((*GROUP_FACTORS, *study.design.together)).first
    if study.measure.isolation != "warm" or len(rows) > MOST_GUESSED:
        return 1.0
    together = study.design.together
    keys = {(_plot(trials, int(row), together), group_key(trials.resolved(int(row)))) for row in rows}
    most = max(Counter(plot for plot, _ in keys).values())
    return len(trials.configurations) / len(keys) if most <= MOST_GROUPS else 1.0


def _plot(trials: Plan, row: int, together: Sequence[str]) -> tuple[object, ...]:
    """What a configuration has in common with those that run one after the other with it."""
    return tuple(trials.configurations[row].get(name) for name in together)

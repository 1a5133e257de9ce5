"""The next batch of an adaptive design: a pure function of what was measured, the aim, the budget and the seed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from steplab.core.units import seconds as shown
from steplab.planning.adaptive.comparing import Pair, verdicts, wanted
from steplab.planning.adaptive.gains import Gains, Improvement, Reduction
from steplab.planning.adaptive.outlook import Outlook, Wanted, outlook
from steplab.planning.adaptive.space import Space
from steplab.planning.adaptive.surrogate import Sizes, Surrogate, learn

Array = np.ndarray
AIMS = ("predict", "best", "scaling", "compare")
REFERENCES = 256  # candidates that stand for the region
AS_GOOD = 0.9  # of choices that promise nearly as much as the best, a cheap one is taken
AS_CHEAP = 0.2  # seconds that differ by less than this share cost as much
# To predict a region, the most telling trials lie at the ends of the factors, if the surrogate is right. It never is,
# and trials at the ends alone do not show it: the most telling of a few that chance draws keeps the middle in view.
DRAWN = 8
REPEATED = 2  # configurations of the start block that are measured twice, to know the noise
SETTLED = 3  # trials in a row below the tolerance, so that luck ends no study
TO_FIT = 10  # trials without which `steplab fit` has too few rows; what is known for sure must also be modelled


@dataclass(frozen=True)
class Observed:
    """A trial that has ended: its candidate, replicate, log time (NaN if it failed), seconds, and batch."""

    row: int
    replicate: int
    log: float
    seconds: float
    batch: int = -1  # −1: nobody chose it


@dataclass(frozen=True)
class Aim:
    """What the study is for, and what ends it."""

    kind: str = "predict"
    tolerance: float = 0.05  # relative uncertainty that is small enough
    matters: float = 0.05  # for `compare`: the difference that is to be seen
    trials: int | None = None
    minutes: float | None = None
    batch: int = 4
    start: int | None = None
    replicates: int = 5  # of a configuration, at most
    seed: int = 1


@dataclass(frozen=True)
class Choice:
    """A trial to measure and why."""

    row: int
    replicate: int
    why: str
    expected_s: float | None = None


@dataclass(frozen=True)
class Batch:
    """What to measure next; without choices the study has ended, and `why` says what ended it."""

    number: int
    choices: tuple[Choice, ...]
    why: str
    uncertainty: float | None = None  # relative, before this batch
    expected: float | None = None  # and after it, as far as can be told

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to measure."""
        return not self.choices


def next_batch(space: Space, aim: Aim, observed: Sequence[Observed], sizes: Sizes | None = None) -> Batch:
    """The batch after all that was measured."""
    return _Chooser(space, aim, tuple(observed), sizes).batch()


def start_size(space: Space, aim: Aim) -> int:
    """Trials of the start block: a few more than there are effects, at most a third of the budget."""
    if aim.start is not None:
        return aim.start
    most = len(space.frame) if aim.trials is None else max(4, aim.trials // 3)
    return int(min(max(6, space.dimensions + 3), most, len(space.frame)))


@dataclass(frozen=True)
class _Chooser:
    space: Space
    aim: Aim
    observed: tuple[Observed, ...]
    sizes: Sizes | None = None

    def batch(self) -> Batch:
        """Start, go on, or end."""
        number = max((trial.batch for trial in self.observed), default=-1) + 1
        if spent := self._spent():
            return Batch(number, (), spent)
        if self.aim.kind == "compare":
            return self._compared(number)
        if not any(math.isfinite(trial.log) for trial in self.observed):
            return self._first(number)
        return self._following(number)

    # The budget.

    @property
    def _left(self) -> int:
        return 10**9 if self.aim.trials is None else self.aim.trials - len(self.observed)

    def _spent(self) -> str:
        """Why nothing may be measured any more; empty while there is something left."""
        if self._left <= 0:
            return f"ended: the budget of {self.aim.trials} trials is used up"
        if self.aim.minutes is not None and self._minutes >= self.aim.minutes:
            return f"ended: the budget of {self.aim.minutes:g} minutes is used up"
        if not len(self._free):
            return "ended: every configuration has been measured as often as is allowed, or failed"
        return ""

    @property
    def _minutes(self) -> float:
        return sum(trial.seconds for trial in self.observed) / 60

    @cached_property
    def _counts(self) -> Counter[int]:
        return Counter(trial.row for trial in self.observed)

    @cached_property
    def _free(self) -> Array:
        """Candidates that may be measured (again)."""
        failed = {trial.row for trial in self.observed if not math.isfinite(trial.log)}
        full = {row for row, count in self._counts.items() if count >= self.aim.replicates}
        return np.setdiff1d(np.arange(len(self.space.frame)), sorted(failed | full))

    # The start block.

    def _first(self, number: int) -> Batch:
        """A block that fills the space, and some of it twice; further ones if all of it failed."""
        size = min(start_size(self.space, self.aim), self._left)
        again = REPEATED if self.aim.replicates > 1 and size > REPEATED + 3 else 0
        free = [row for row in self.space.spread_out(len(self.space.frame), self.aim.seed) if row in set(self._free)]
        rows = free[: size - again]
        why = f"start block of {size}: fills the space evenly"
        choices = [Choice(row, self._counts[row], why) for row in rows]
        choices += [Choice(row, self._counts[row] + 1, "start block: measured again, to know the noise")
                    for row in rows[:again]]  # fmt: skip
        return Batch(number, tuple(choices), why)

    # Predicting, scaling and searching.

    def _following(self, number: int) -> Batch:
        good = [trial for trial in self.observed if math.isfinite(trial.log)]
        gains, now = self._gains(), outlook(self._surrogate(good), self._wanted)
        uncertainty = gains.uncertainty(now)
        enough = max(start_size(self.space, self.aim) + SETTLED, 0 if self.aim.kind == "best" else TO_FIT)
        if uncertainty <= self.aim.tolerance and len(good) >= enough:
            return Batch(number, (), gains.reached(uncertainty, self.aim.tolerance), uncertainty)
        choices: list[Choice] = []
        counts, costs = Counter(self._counts), self._expected_s(good)
        while len(choices) < min(self.aim.batch, self._left):
            free = np.array([row for row in self._free if counts[int(row)] < self.aim.replicates], int)
            if not len(free):
                break
            choice = self._best_choice(gains, now, free, counts, costs)
            choices.append(choice)
            counts[choice.row] += 1
            now = now.believing(choice.row)
        return Batch(number, tuple(choices), gains.told(uncertainty), uncertainty, gains.uncertainty(now))

    def _surrogate(self, good: Sequence[Observed]) -> Surrogate:
        rows, logs = [trial.row for trial in good], np.array([trial.log for trial in good])
        if self.sizes is not None:
            return Surrogate(self.space, np.array(rows), logs, self.sizes)
        return learn(self.space, rows, logs, self.aim.seed)

    def _gains(self) -> Gains:
        if self.aim.kind == "best":
            return Improvement()
        if self._wanted.bases is not None:
            return Reduction("the scaling with workers is")
        return Reduction("the times of the region are", DRAWN)

    def _best_choice(self, gains: Gains, now: Outlook, free: Array, counts: Counter[int], costs: Array) -> Choice:
        rng = np.random.default_rng([self.aim.seed, len(now.measured)])
        free = _looked_at(free, counts, gains.drawn, rng)
        gain, took = gains.of(now, free), costs[free]
        at = int(np.argmax(gain / took)) if self.aim.minutes is not None else _cheapest_telling(gain, took, rng)
        row = int(free[at])
        why = gains.why(now, row, float(gain[at]), counts[row] > 0) + f"; about {shown(float(took[at]))}"
        return Choice(row, counts[row], why, float(took[at]))

    def _expected_s(self, good: Sequence[Observed]) -> Array:
        """The seconds that trials of all candidates take, from those that have run: linear in logarithms."""
        rows = np.array([trial.row for trial in good])
        took = np.log(np.maximum([trial.seconds for trial in good], 1e-3))
        X = np.column_stack([np.ones(len(self.space.frame)), self.space.points])
        ridge = 0.1 * np.eye(X.shape[1])
        ridge[0, 0] = 1e-9
        weights = np.linalg.solve(X[rows].T @ X[rows] + ridge, X[rows].T @ took)
        ends = float(took.min()) - 1, float(took.max()) + 1
        return np.asarray(np.exp(np.clip(X @ weights, *ends)))

    @cached_property
    def _wanted(self) -> Wanted:
        """What is to be known: times of the region, or how they change with workers."""
        rows = self.space.some(REFERENCES, self.aim.seed)
        if self.aim.kind != "scaling" or not self.space.workers:
            return Wanted(rows)
        frame, workers = self.space.frame, self.space.workers
        others = [str(name) for name in frame.columns if name != workers]
        keys = list(frame[others].astype(str).itertuples(index=False, name=None))
        fewest: dict[tuple[str, ...], int] = {}
        for row in np.argsort(frame[workers].to_numpy(float), kind="stable"):
            fewest.setdefault(keys[int(row)], int(row))
        pairs = [(int(row), fewest[keys[int(row)]]) for row in rows]
        kept = [(row, base) for row, base in pairs if row != base]
        if not kept:
            return Wanted(rows)
        return Wanted(np.array([row for row, _ in kept]), np.array([base for _, base in kept]))

    # Comparing.

    def _compared(self, number: int) -> Batch:
        """More replicates where two configurations cannot be told apart yet."""
        failed = {trial.row for trial in self.observed if not math.isfinite(trial.log)}
        logs = {row: [t.log for t in self.observed if t.row == row] for row in range(len(self.space.frame))}
        logs = {row: values for row, values in logs.items() if row not in failed}
        needs = wanted(logs, self.aim.matters, self.aim.replicates)
        if not needs:
            return Batch(number, (), _told_apart(verdicts(logs, self.aim.matters)))
        choices = [
            Choice(row, self._counts[row] + more, self._why_again(pair))
            for row, (number_of, pair) in needs.items()
            for more in range(number_of)
        ]
        choices.sort(key=lambda choice: choice.replicate)  # blocks: what changes with time meets all alike
        why = f"{sum(not pair.verdict for pair in verdicts(logs, self.aim.matters))} pairs are not yet told apart"
        return Batch(number, tuple(choices[: self._left]), why)

    def _why_again(self, pair: Pair | None) -> str:
        if pair is None:
            return "start block: enough replicates to know the noise"
        first, second = (self.space.described(row) for row in (pair.first, pair.second))
        differ = f"{math.expm1(abs(pair.difference)):.1%}"
        return (
            f"measured again: {first} and {second} differ by {differ} ± {math.expm1(pair.half):.1%}: not told apart yet"
        )


def _looked_at(free: Array, counts: Counter[int], drawn: int | None, rng: np.random.Generator) -> Array:
    """What was measured and may be again, and of the rest as many as are drawn."""
    known = np.array([counts[int(row)] > 0 for row in free], bool)
    if drawn is None or int((~known).sum()) <= drawn:
        return free
    return np.concatenate([free[known], rng.choice(free[~known], drawn, replace=False)])


def _cheapest_telling(gain: Array, took: Array, rng: np.random.Generator) -> int:
    """The budget counts trials: of those that tell nearly as much, a cheap one; among these chance decides."""
    near = np.flatnonzero(gain >= AS_GOOD * gain.max())
    return int(rng.choice(near[took[near] <= (1 + AS_CHEAP) * took[near].min()]))


def _told_apart(pairs: Sequence[Pair]) -> str:
    apart, alike = (sum(pair.verdict in kinds for pair in pairs) for kinds in (("faster", "slower"), ("alike",)))
    rest = len(pairs) - apart - alike
    left = f", {rest} cannot be told within the allowed replicates" if rest else ""
    return f"ended: {apart} of {len(pairs)} pairs are told apart, {alike} differ by less than matters{left}"

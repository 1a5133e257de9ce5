"""Two studies of the same configurations, before and after: what became faster or slower, as far as that is sure.

Configurations are matched by their factors. The replicates of two studies were not taken together, so they are not
paired: the ratio of a configuration is that of the geometric means of its step times, its error comes from the spread
of the replicates on both sides (moderated, `variances`; degrees of freedom by Satterthwaite). All configurations and
the overall ratio are one family of questions, judged by the one rule (`statistics.differences`): their intervals hold
all at once, and a change is told exactly where its interval leaves 1 out. So of studies between which nothing changed,
at most one in twenty is told to have changed anywhere.

What is the same in all trials of a study and differs between two, such as a machine that was busier all day, cannot be
told from a change of the software. `Surroundings` lists what is known to differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.configurations import configurations, missing
from steplab.analysis.environment_variables import parsed_variables
from steplab.analysis.statistics.differences import ROUNDING, critical
from steplab.analysis.statistics.differences import Difference as Judged
from steplab.analysis.statistics.differences import difference as judge
from steplab.analysis.statistics.variances import joint_freedom, moderated
from steplab.core.trial import Level

Array = NDArray[np.float64]
Key = tuple[tuple[str, Level], ...]


@dataclass(frozen=True)
class Change:
    """How the step time of a configuration changed; `factors` is None for all of them together."""

    factors: dict[str, Level] | None
    before: float | None  # the geometric means of the replicates' step times
    after: float | None
    ratio: float  # after / before
    low: float | None  # its interval, which holds for all questions at once with 95 %; none without replicates
    high: float | None
    replicates: tuple[int, int]
    verdict: str  # slower, faster, or "" where the noise leaves it in doubt
    too_slow: bool  # beyond doubt slower than is allowed


@dataclass(frozen=True)
class Differs:
    """Something beside the times that is not the same in both studies."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Difference:
    """What changed between two studies."""

    overall: Change | None  # None if they share nothing
    changes: tuple[Change, ...]  # the largest slow-down first
    only_before: tuple[dict[str, Level], ...]
    only_after: tuple[dict[str, Level], ...]
    surroundings: tuple[Differs, ...]
    varied: tuple[str, ...]  # the factors that tell the configurations apart

    @property
    def too_slow(self) -> bool:
        """Whether anything is beyond doubt slower than is allowed."""
        return any(change.too_slow for change in self._all)

    @property
    def _all(self) -> tuple[Change, ...]:
        return (self.overall, *self.changes) if self.overall else self.changes

    def with_verdict(self, verdict: str) -> list[Change]:
        """The configurations of that verdict."""
        return [change for change in self.changes if change.verdict == verdict]


@dataclass(frozen=True)
class Side:
    """The trials of one of the two studies, and its factors."""

    trials: pd.DataFrame
    factors: Sequence[str]

    def levels(self, name: str) -> list[Level]:
        """The levels of a factor, none if the study does not tell it."""
        if name not in self.trials:
            return []
        return [level for level in self.trials[name].unique().tolist() if not missing(level)]


def difference(before: Side, after: Side, allowed: float = math.inf) -> Difference:
    """Compare two studies; `allowed` is the slow-down that is still fine, 0.05 for 5 %."""
    keys = _keys(before, after)
    first, second = _cells(before, keys), _cells(after, keys)
    shared = [key for key in first if key in second]
    family = [estimate.judged for estimate in _family([(first[key], second[key]) for key in shared])]
    rows = [
        _change(dict(key), ratio, (first[key], second[key]), allowed)
        for key, ratio in zip(shared, family, strict=False)
    ]
    overall = rows[0] if len(rows) == 1 else _change(None, family[-1], None, allowed) if rows else None
    return Difference(
        overall=replace(overall, factors=None) if overall else None,
        changes=tuple(sorted(rows, key=lambda change: -change.ratio)),
        only_before=tuple(dict(key) for key in first if key not in second),
        only_after=tuple(dict(key) for key in second if key not in first),
        surroundings=_surroundings(before, after, keys),
        varied=tuple(name for name in keys if len({dict(key).get(name) for key in (*first, *second)}) > 1),
    )


def _keys(before: Side, after: Side) -> list[str]:
    """The factors by which configurations are matched: not those that have one level here and another one there."""
    names = dict.fromkeys([*before.factors, *after.factors])
    return [name for name in names if len(before.levels(name)) > 1 or len(after.levels(name)) > 1
            or before.levels(name) == after.levels(name)]  # fmt: skip


def _cells(side: Side, keys: Sequence[str]) -> dict[Key, Array]:
    """The logarithms of the step times of each configuration's trials."""
    sorted_ = configurations(side.trials, keys)
    if not len(sorted_):
        return {}
    times = np.log(sorted_.rows["t_iter"].to_numpy(dtype=float))
    return {
        tuple(sorted(levels.items())): times[members]
        for levels, members in zip(sorted_.factors, sorted_.members, strict=True)
    }


@dataclass(frozen=True)
class _Estimate:
    """A change on the log scale with its standard error, as one of several questions that are judged at once."""

    mean: float
    error: float
    freedom: float  # 0 where nothing tells the noise
    questions: int

    @property
    def judged(self) -> Judged:
        known = self.freedom > 0 and math.isfinite(self.error)
        return judge(self.mean, float(critical(self.freedom, self.questions)) * self.error if known else None)


def _family(pairs: Sequence[tuple[Array, Array]]) -> list[_Estimate]:
    """The change of each configuration, then the mean of all if there are several."""
    if not pairs:
        return []
    cells = [cell for pair in pairs for cell in pair]
    sizes = np.array([len(cell) for cell in cells], dtype=float)
    spread = np.array([cell.var(ddof=1) if len(cell) > 1 else 0.0 for cell in cells])
    noise = moderated(spread, sizes - 1)
    parts = (noise.variance / sizes).reshape(-1, 2)
    each = joint_freedom(parts, noise.freedom.reshape(-1, 2), noise.pool)
    enough = noise.pool > 0
    means = [float(after.mean() - before.mean()) for before, after in pairs]
    questions = len(pairs) + (len(pairs) > 1)
    family = [
        _Estimate(mean, float(math.sqrt(squares.sum())), float(freedom) if enough else 0.0, questions)
        for mean, squares, freedom in zip(means, parts, each, strict=True)
    ]
    if len(pairs) > 1:
        squares = parts.ravel() / len(pairs) ** 2
        joint = float(joint_freedom(squares, noise.freedom, noise.pool)) if enough else 0.0
        family.append(_Estimate(float(np.mean(means)), float(math.sqrt(squares.sum())), joint, questions))
    return family


def _change(
    factors: dict[str, Level] | None, ratio: Judged, pair: tuple[Array, Array] | None, allowed: float
) -> Change:
    before, after = (None, None) if pair is None else (math.exp(pair[0].mean()), math.exp(pair[1].mean()))
    sizes = (0, 0) if pair is None else (len(pair[0]), len(pair[1]))
    verdict = ("slower" if ratio.ratio > 1 else "faster") if ratio.differs else ""
    # What is allowed is a border by the same interval as no change.
    too_slow = ratio.low is not None and math.log(ratio.low) - math.log1p(allowed) > ROUNDING
    return Change(factors, before, after, ratio.ratio, ratio.low, ratio.high, sizes, verdict, too_slow)


def _surroundings(before: Side, after: Side, keys: Sequence[str]) -> tuple[Differs, ...]:
    """Versions, hosts, environment variables and single levels that are not the same."""
    names = [name for name in dict.fromkeys([*before.factors, *after.factors]) if name not in keys]
    differing = [Differs(name, _listed(before.levels(name)), _listed(after.levels(name))) for name in names]
    for framework in sorted({*map(str, before.levels("framework")), *map(str, after.levels("framework"))}):
        differing.append(Differs(f"version of {framework}", _versions(before, framework), _versions(after, framework)))
    differing.append(Differs("host", _listed(before.levels("host")), _listed(after.levels("host"))))
    first, second = _variables(before), _variables(after)
    for name in sorted({*first, *second}):
        differing.append(Differs(f"variable {name}", first.get(name, "not set"), second.get(name, "not set")))
    return tuple(
        surrounding
        for surrounding in differing
        if surrounding.before != surrounding.after and (surrounding.before or surrounding.after)
    )


def _listed(levels: Sequence[object]) -> str:
    return ", ".join(sorted(map(str, levels)))


def _versions(side: Side, framework: str) -> str:
    if "version" not in side.trials or "framework" not in side.trials:
        return ""
    own = side.trials[side.trials["framework"] == framework]["version"]
    return _listed([version for version in own.unique().tolist() if version])


def _variables(side: Side) -> dict[str, str]:
    """The environment variables of a study's trials; several values of one are all named."""
    values: dict[str, set[str]] = {}
    for text in side.trials["variables"].dropna().unique() if "variables" in side.trials else ():
        for name, value in parsed_variables(text).items():
            values.setdefault(name, set()).add(value)
    return {name: " or ".join(sorted(known)) for name, known in values.items()}

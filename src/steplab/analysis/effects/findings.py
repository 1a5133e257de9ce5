"""What the analysis of a designed experiment finds: effects, interactions, ANOVA, checks, what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steplab.core.trial import Level

ScaleName = Literal["log", "seconds"]
ErrorKind = Literal["replicates", "configurations", "pooled", "none"]
CheckName = Literal["normality", "equal variance", "independence", "outliers"]


@dataclass(frozen=True)
class Effect:
    """How a level compares with its factor's reference level; `ratio` multiplies the step time.

    The interval is simultaneous: all main effects of a study lie in theirs with 95 % confidence. Of a number that
    counts as one slope the largest value is compared with the smallest.
    """

    factor: str
    level: Level
    reference: Level
    ratio: float
    low: float
    high: float
    differs: bool


@dataclass(frozen=True)
class Interaction:
    """What a combination of two levels costs beyond the two effects alone; `ratio` 1 is no interaction.

    On the log scale the two effects alone multiply, on the scale of seconds they add.
    """

    factors: tuple[str, str]
    levels: tuple[Level, Level]
    references: tuple[Level, Level]
    ratio: float
    low: float
    high: float
    differs: bool


@dataclass(frozen=True)
class AnovaRow:
    """A line of the analysis of variance; `holm` is the p-value corrected for the number of terms tested.

    `differs` is the verdict: whether an effect, power or combination of the term is real. The p-values of the F test
    stand beside it for the curious; no sentence is made from them.
    """

    term: str
    factors: tuple[str, ...]
    df: int
    sum_squares: float
    share: float  # of the total sum of squares
    f: float | None
    p: float | None
    holm: float | None
    differs: bool = False


@dataclass(frozen=True)
class Mean:
    """The step time at one level, or at one combination of two, all other factors averaged with equal weights.

    Seconds; a geometric mean on the log scale. The 95 % interval is for this mean alone.
    """

    factors: tuple[str, ...]
    levels: tuple[Level, ...]
    seconds: float
    low: float | None
    high: float | None
    trials: int


@dataclass(frozen=True)
class Trend:
    """The power of a numeric factor in the step time: t grows as level^power.

    The interval is simultaneous, together with those of all main effects.
    """

    factor: str
    power: float
    low: float
    high: float
    straight: bool  # whether a power law says all that the levels say
    p_curved: float | None
    differs: bool = False  # whether the power is surely not 0


@dataclass(frozen=True)
class Check:
    """One look at the residuals: what was seen and what to do about it."""

    name: CheckName
    fine: bool
    p: float | None
    sentence: str
    trials: tuple[str, ...] = ()


NEVER = "never run"  # why a cell is empty that was not planned, or not yet run


@dataclass(frozen=True)
class MissingCell:
    """A combination of levels without a single good trial, and why."""

    levels: tuple[tuple[str, Level], ...]
    failed: int
    why: str


@dataclass(frozen=True)
class Inestimable:
    """A term that these trials cannot tell, and why."""

    term: str
    why: str


@dataclass(frozen=True)
class Scale:
    """The scale of the analysis and the profile of the Box-Cox power that chose it."""

    name: ScaleName
    power: float | None
    low: float | None
    high: float | None
    why: str


@dataclass(frozen=True)
class ErrorTerm:
    """What differences are judged against; `spread` is the residual standard deviation on the analysis's scale."""

    kind: ErrorKind
    df: int
    spread: float | None
    why: str


@dataclass(frozen=True)
class Designed:
    """Everything that is found out about a designed experiment."""

    factors: tuple[str, ...]
    levels: tuple[int, ...]
    trials: int
    blocks: int
    scale: Scale
    error: ErrorTerm
    sums: Literal["II", "III"]
    main: list[Effect]
    interactions: list[Interaction]
    anova: list[AnovaRow]
    means: list[Mean]
    pair_means: list[Mean]
    trends: list[Trend]
    checks: list[Check]
    missing: list[MissingCell]
    broken: tuple[str, ...]  # trials that failed, each with its reason
    inestimable: list[Inestimable]
    notes: list[str]
    unequal: bool = False  # whether configurations differ in noise, and each counts with its own
    confounded: tuple[str, ...] = ()  # factors that were not varied independently: no effect is theirs alone

"""Numbers with units, and limits on them, as people write them: `24h`, `8GB`, `workers<=8,cost<100`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from steplab.core.errors import InputError, allowed

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}
_ENERGY = {"j": 1.0, "kj": 1e3, "wh": 3600.0, "kwh": 3.6e6}
UNITS = _SECONDS | _BYTES | _ENERGY
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z]*)")
_LIMIT = re.compile(r"\s*([A-Za-z_]\w*)\s*(<=|>=|==|=|<|>)\s*(.+?)\s*")
_COMPARE: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip
Array = np.ndarray
LONGEST = 20  # characters of a number that is repeated to its writer


def quantity(text: str, where: str = "") -> float:
    """A number in SI units: seconds, bytes, joules, or as it stands.

    >>> quantity("24h"), quantity("1.5 GB"), quantity("90")
    (86400.0, 1500000000.0, 90.0)
    """
    parts = _NUMBER.fullmatch(text.strip())
    unit = parts[2].lower() if parts else ""
    if parts is None or (unit and unit not in UNITS):
        hint = f"write a number and, if it has one, its unit: {', '.join(UNITS)}"
        raise InputError(f"{text!r} is not a quantity", where=where, hint=hint)
    value = float(parts[1]) * UNITS.get(unit, 1.0)
    if not math.isfinite(value):
        raise InputError(f"{text!r} is not a finite number", where=where)
    return value


def duration(text: str, where: str = "") -> float:
    """Seconds; a number without a unit is seconds.

    >>> duration("1.5h")
    5400.0
    """
    value, unit = quantity(text, where), re.sub(r"[^A-Za-z]", "", text).lower()
    if value < 0 or (unit not in _SECONDS and unit not in ("", "e")):
        raise InputError(f"{text!r} is not a duration", where=where, hint="write 90s, 30min, 24h or 2d")
    return value


@dataclass(frozen=True)
class Limit:
    """What a quantity of a configuration must keep: `workers <= 8`, or a level, `padding = same`."""

    name: str
    sign: str
    value: float | str
    text: str
    unit: str = ""  # as it was written

    def kept(self, values: Array) -> Array:
        """Where the values keep it."""
        if isinstance(self.value, str):
            return np.asarray(values.astype(str) == self.value)
        return np.asarray(_COMPARE[self.sign](values.astype(float), self.value))

    def shortfall(self, values: Array) -> Array:
        """How far numbers are from keeping it, as a share of the limit; 0 where they do."""
        assert not isinstance(self.value, str)
        far = np.abs(values.astype(float) - self.value) / max(abs(self.value), 1e-12)
        return np.where(self.kept(values), 0.0, far)


def parse_limits(text: str) -> tuple[Limit, ...]:
    """Limits from their text; two that contradict each other are told.

    >>> [limit.name for limit in parse_limits("memory<8GB, workers<=8")]
    ['memory', 'workers']
    """
    limits = tuple(_limit(part) for part in filter(None, (part.strip() for part in text.split(","))))
    _refuse_contradictions(limits)
    return limits


def _limit(part: str) -> Limit:
    parts = _LIMIT.fullmatch(part)
    if parts is None:
        raise InputError(f"{part!r} is no limit", where="within", hint='write "workers<=8,memory<8GB,padding=same"')
    name, sign, written = parts[1], parts[2].replace("==", "="), parts[3]
    number = _NUMBER.fullmatch(written)
    if sign == "=" and (number is None or (number[2] and number[2].lower() not in UNITS)):
        return Limit(name, sign, written, f"{name}={written}")
    unit = number[2] if number else ""
    return Limit(name, sign, quantity(written, f"within, {name}"), f"{name}{sign}{written}", unit)


def _refuse_contradictions(limits: Sequence[Limit]) -> None:
    for first, second in combinations(limits, 2):
        if first.name == second.name and _contradict(first, second):
            what = f"{first.text} and {second.text} contradict each other: nothing keeps both"
            raise InputError(what, where="within", hint="loosen or drop one of them")


def _contradict(first: Limit, second: Limit) -> bool:
    if isinstance(first.value, str) or isinstance(second.value, str):
        return first.sign == second.sign == "=" and first.value != second.value
    tried = np.array([v + d for v in (first.value, second.value) for d in (-_step(v), 0.0, _step(v))])
    middle = np.array([(first.value + second.value) / 2])
    points = np.concatenate([tried, middle])
    return not bool((first.kept(points) & second.kept(points)).any())


def _step(value: float) -> float:
    return max(abs(value), 1.0) * 1e-9


def expect_names(limits: Iterable[Limit], known: Sequence[str]) -> None:
    """Say so if a limit names what nobody can tell, or has a unit of something else."""
    for limit in limits:
        if limit.name not in known:
            hint = f"{allowed(known)}; another quantity needs a model of its own (--also MODEL.json)"
            raise InputError(f"nothing tells {limit.name!r} of a configuration", where="within", hint=hint)
        units = units_of(limit.name)
        if limit.unit and limit.unit.lower() not in units:
            hint = f"allowed: {', '.join(units)}, or none" if units else "write a plain number"
            raise InputError(f"{limit.text}: {limit.name} is not counted in {limit.unit}", where="within", hint=hint)


def units_of(name: str) -> tuple[str, ...]:
    """The units in which a quantity may be given, by its name; none for a factor, a number or money.

    >>> units_of("t_epoch")[:2], units_of("workers")
    (('us', 'ms'), ())
    """
    kinds = ((("t_", "_s"), _SECONDS), (("memory", "_bytes"), _BYTES), (("energy", "_j"), _ENERGY))
    return next((tuple(units) for (start, end), units in kinds if name.startswith(start) or name.endswith(end)), ())


def finite(value: object, what: str, hint: str) -> float:
    """A number that can be computed with; texts, whole numbers beyond any float and infinity are told as that."""
    try:
        number = float(value) if isinstance(value, int | float | np.number) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        told = repr(value) if len(repr(value)) <= LONGEST else f"a number of {len(repr(value))} digits"
        raise InputError(f"{what} is {told}, no finite number", hint=hint)
    return number


def expect_positive(value: float, what: str, hint: str) -> None:
    """A budget, a deadline or a number of samples of nothing is told as that."""
    if not value > 0:
        raise InputError(f"{what} is {value:g}: with nothing to spend nothing can be done", hint=hint)

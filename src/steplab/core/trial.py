"""A trial: one configuration, one replicate, and the id that both have for ever."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator

from steplab_worker import kinds

Level = bool | int | float | str
Config = Mapping[str, Level]
PLAIN_LEVELS = "allowed: text, finite numbers, whole ones of up to 64 bits"
MOST_REPLICATES = 10_000
PRECISIONS = ("float32", "bfloat16", "float16")
SHARDED = "sharded"
STRATEGIES = ("sync", "accumulate", SHARDED, "ps-sync", "ps-async")
Status = Literal["ok", "failed", "crashed", "killed", "timeout", "out-of-memory", "unsupported"]

MEASURED: Status = "ok"
UNSUPPORTED: Status = "unsupported"  # the framework cannot do it: known beforehand, and no failure


@cache
def kind_names() -> tuple[str, ...]:
    """What a trial can be; nothing is imported.

    >>> kind_names()
    ('exchange', 'infer', 'step', 'train')
    """
    return tuple(kinds.names())


def _known(kind: str) -> str:
    if kind not in kind_names():
        raise ValueError(f"must be {' or '.join(map(repr, kind_names()))}")
    return kind


Kind = Annotated[str, AfterValidator(_known)]


def is_failure(status: str) -> bool:
    """Whether a trial went wrong: it was neither measured nor refused as unsupported."""
    return status not in (MEASURED, UNSUPPORTED)


@dataclass(frozen=True)
class Tally:
    """How many trials ended in which way."""

    ok: int
    failed: int
    unsupported: int

    @property
    def ended(self) -> int:
        """All of them."""
        return self.ok + self.failed + self.unsupported

    def __str__(self) -> str:
        refused = f", {self.unsupported} unsupported" if self.unsupported else ""
        return f"{self.ok} ok, {self.failed} failed{refused}"


def tally(statuses: Iterable[str]) -> Tally:
    """Count how trials ended.

    >>> print(tally(["ok", "timeout", "ok", "unsupported"]))
    2 ok, 1 failed, 1 unsupported
    """
    counts = Counter(statuses)
    failed = sum(count for status, count in counts.items() if is_failure(status))
    return Tally(counts[MEASURED], failed, counts[UNSUPPORTED])


def trial_id(config: Config, replicate: int) -> str:
    """A stable hash of configuration and replicate.

    >>> trial_id({"workers": 2, "network": "lenet5"}, 0) == trial_id({"network": "lenet5", "workers": 2}, 0)
    True
    """
    return id_of(_json(config), replicate)


def id_part(name: str, level: Level) -> str:
    """What a factor's level adds to the text of which an id is made.

    >>> id_part("workers", 2)
    '"workers":2'
    """
    return _json({name: level})[1:-1]


def id_of(text: str, replicate: int) -> str:
    """The id of a configuration whose text is a JSON object of `id_part`s in the order of their names."""
    return hashlib.sha256(f"[{text},{replicate}]".encode()).hexdigest()[:16]


def _json(config: Config) -> str:
    return json.dumps(dict(config), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Trial:
    """One configuration, one replicate."""

    config: Config
    replicate: int

    @cached_property
    def id(self) -> str:
        """The trial's name on disk and in tables."""
        return trial_id(self.config, self.replicate)


def accumulation(strategy: str) -> int:
    """How many iterations one exchange of gradients serves.

    >>> accumulation("sync"), accumulation("accumulate:4")
    (1, 4)
    """
    name, _, count = strategy.partition(":")
    return int(count) if name == "accumulate" else 1


def describe(config: Config) -> str:
    """A configuration as people write it.

    >>> describe({"network": "lenet5", "workers": 2})
    'network=lenet5, workers=2'
    """
    return ", ".join(f"{name}={value}" for name, value in config.items())


def plain_level(value: object) -> Level:
    """A level as a plain Python value, whatever array type a table gave it."""
    plain = value.item() if hasattr(value, "item") else value
    assert isinstance(plain, bool | int | float | str)
    return plain


def is_plain_level(value: Level) -> bool:
    """Whether a level can stand in a record and in a table.

    >>> [is_plain_level(value) for value in (8, 0.5, "x", float("inf"), 2**63)]
    [True, True, True, False, False]
    """
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str) or math.isfinite(value)

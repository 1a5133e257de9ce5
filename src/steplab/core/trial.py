"""A trial: one configuration, one replicate, and the id that both have for ever."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Level = bool | int | float | str
Config = Mapping[str, Level]
PLAIN_LEVELS = "allowed: text, finite numbers, whole ones of up to 64 bits"
Kind = Literal["step", "train", "infer"]
Status = Literal["ok", "failed", "crashed", "killed", "timeout", "out-of-memory", "unsupported"]


def trial_id(config: Config, replicate: int) -> str:
    """A stable hash of configuration and replicate.

    >>> trial_id({"workers": 2, "network": "lenet5"}, 0) == trial_id({"network": "lenet5", "workers": 2}, 0)
    True
    """
    text = json.dumps([dict(config), replicate], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    made = value.item() if hasattr(value, "item") else value
    assert isinstance(made, bool | int | float | str)
    return made


def is_plain_level(value: Level) -> bool:
    """Whether a level can stand in a record and in a table.

    >>> [is_plain_level(value) for value in (8, 0.5, "x", float("inf"), 2**63)]
    [True, True, True, False, False]
    """
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str) or math.isfinite(value)

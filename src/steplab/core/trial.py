"""A trial: one configuration, one replicate, and the id that both have for ever."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Level = bool | int | float | str
Config = Mapping[str, Level]
Kind = Literal["step", "train", "infer"]
Status = Literal["ok", "failed", "crashed", "killed", "timeout", "out-of-memory", "unsupported"]


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
    made = value.item() if hasattr(value, "item") else value
    assert isinstance(made, bool | int | float | str)
    return made

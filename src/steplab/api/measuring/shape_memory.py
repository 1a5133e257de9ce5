"""What studies learn of trials on this machine, kept between them by what the trials are like.

Small files in STEPLAB_HOME. Losing one costs nothing but a worse first estimate, so what cannot be read is empty and
what cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from steplab.core.atomic import name_aside
from steplab.core.home import home

MOST_SHAPES = 500
MOST_BYTES = 1 << 20


class Shape(NamedTuple):
    """What decides most about how long a trial takes, beside its size: start-up, compiling, exchange."""

    framework: str
    network: str
    workers: int


class Sum(Protocol):
    """A frozen dataclass of numbers that add up over trials."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def plus(self, other: Any) -> Any:
        """Both together."""

    def at_most(self, weight: float) -> Any:
        """The same as if of fewer trials."""


T = TypeVar("T", bound=Sum)


@dataclass(frozen=True)
class ShapeMemory(Generic[T]):
    """A file with a sum for each shape; `checked` makes one of its numbers, `most` is what the past counts for."""

    name: str
    checked: Callable[..., T]
    most: float

    @property
    def file(self) -> Path:
        """Where it is."""
        return home() / self.name

    def read(self) -> dict[Shape, T]:
        """What earlier studies saw on this machine."""
        try:
            with self.file.open("rb") as file:
                rows = json.loads(file.read(MOST_BYTES))
            return {Shape(str(f), str(n), int(w)): self.checked(*numbers) for f, n, w, *numbers in rows[:MOST_SHAPES]}
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return {}

    def add(self, new: Mapping[Shape, T]) -> None:
        """Add what a run saw; the newest shapes stay."""
        before = self.read()
        sums = {shape: before[shape].plus(seen) if shape in before else seen for shape, seen in new.items()}
        whole = {shape: total.at_most(self.most) for shape, total in sums.items()}
        kept = list({**whole, **{shape: seen for shape, seen in before.items() if shape not in whole}}.items())
        rows = [[*shape, *astuple(seen)] for shape, seen in kept[:MOST_SHAPES]]
        aside = self.file.with_name(name_aside(self.file.name))
        with contextlib.suppress(OSError):
            aside.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(json.dumps(rows), encoding="utf-8")
            os.replace(aside, self.file)  # noqa: PTH105 - said as what it is: one move

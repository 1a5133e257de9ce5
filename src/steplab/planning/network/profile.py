"""A network profile: what moving bytes between hosts takes, measured or written by hand; a JSON document.

A measured one has points: seconds of the framework's collective and of a plain line, for numbers of ranks and sizes of
messages. A hand-written one has a `link`, the data sheet of a machine that one does not have:

    {"name": "cloud", "link": {"bandwidth": "25 Gbit/s", "latency": "10 µs", "nodes": 8, "ranks_per_node": 4}}

Format history
1  first version
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from steplab.core import quantities
from steplab.core.errors import InputError
from steplab.core.parsing import parsing

MAX_BYTES = 16 << 20  # of the file
# Beyond these bounds nothing is a network, and squares of times would leave the range of floats.
Seconds = Annotated[float, Field(ge=1e-12, lt=1e9, allow_inf_nan=False)]
SLOWEST, FASTEST = 1.0, 1e15  # bytes a second of a link
SHORTEST, LONGEST = 1e-12, 1e6  # seconds of its latency
Count = Annotated[int, Field(ge=1, le=1 << 20)]
Text = Annotated[str, Field(max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Point(_Part):
    """A size of message: median seconds with their interval, and CPU seconds that a rank spends on it."""

    bytes: Annotated[int, Field(ge=1, le=1 << 44)]
    seconds: Seconds
    low: Seconds | None = None
    high: Seconds | None = None
    cpu_seconds: Annotated[float, Field(ge=0, lt=1e9, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _between(self) -> Self:
        if not (self.low or self.seconds) <= self.seconds <= (self.high or self.seconds):
            raise ValueError("seconds must lie between low and high")
        return self


class _Points(_Part):
    rate: Text = ""  # of the lines, where it can be set: a cluster in a box
    sizes: Annotated[list[Point], Field(min_length=1, max_length=1000)]

    @field_validator("sizes")
    @classmethod
    def _rising(cls, sizes: list[Point]) -> list[Point]:
        known = [point.bytes for point in sizes]
        if known != sorted(set(known)):
            raise ValueError("bytes must rise from size to size")
        return sizes


class Collective(_Points):
    """The framework's own exchange of gradients among so many ranks."""

    ranks: Annotated[int, Field(ge=2, le=1 << 20)]
    nodes: Count = 1

    @model_validator(mode="after")
    def _none_empty(self) -> Self:
        if self.nodes > self.ranks:
            raise ValueError(f"{self.ranks} ranks cannot be on {self.nodes} nodes")
        return self


class Pair(_Points):
    """A plain TCP line from the first rank to the last: one way."""


class Link(_Part):
    """The line of each host, by its data sheet, and how many hosts with how many ranks there are."""

    bandwidth: str | int | float
    latency: str | int | float
    nodes: Count
    ranks_per_node: Count = 1

    @field_validator("bandwidth", mode="before")
    @classmethod
    def _is_bandwidth(cls, text: object) -> object:
        if not SLOWEST <= quantities.bandwidth(text) <= FASTEST:
            raise ValueError(f"must be between {SLOWEST:g} B/s and {FASTEST:g} B/s")
        return text

    @field_validator("latency", mode="before")
    @classmethod
    def _is_latency(cls, text: object) -> object:
        if not SHORTEST <= quantities.duration(text) <= LONGEST:
            raise ValueError(f"must be between {SHORTEST:g} s and {LONGEST:g} s")
        return text

    @property
    def bytes_per_s(self) -> float:
        """The bandwidth."""
        return quantities.bandwidth(self.bandwidth)

    @property
    def latency_s(self) -> float:
        """From sending a byte to its arrival."""
        return quantities.duration(self.latency)


class Profile(_Part):
    """What is known of a network."""

    format: Literal[1] = 1
    name: Annotated[str, Field(min_length=1, max_length=200)]
    framework: Text = ""  # whose collective was measured
    backend: Text = ""
    one_machine: bool = False  # whether the hosts share one machine's CPUs, as those of a cluster in a box do
    measured: Text = ""  # when
    ranks: Annotated[list[Collective], Field(max_length=1000)] = []
    pairs: Annotated[list[Pair], Field(max_length=1000)] = []
    link: Link | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.ranks and self.link is None:
            raise ValueError("it has neither measured sizes (ranks) nor a link")
        keys = [(entry.rate, entry.ranks, entry.nodes) for entry in self.ranks]
        if len(keys) > len(set(keys)):
            raise ValueError("ranks: two entries are of the same ranks, nodes and rate")
        if len(self.pairs) > len({pair.rate for pair in self.pairs}):
            raise ValueError("pairs: two entries are of the same rate")
        return self

    @property
    def rates(self) -> list[str]:
        """The rates that were measured."""
        return sorted({entry.rate for entry in self.ranks})

    def document(self) -> dict[str, Any]:
        """As its file holds it; what is not known is left out."""
        return self.model_dump(mode="json", exclude_none=True)

    def text(self) -> str:
        """The file's text."""
        return json.dumps(self.document(), indent=1, ensure_ascii=False) + "\n"


_HINT = "a profile has name, and ranks (ranks, nodes, sizes of bytes and seconds) or link (see docs/network.md)"


def parse_profile(text: str, where: str) -> Profile:
    """The profile in a file's text; anything else is one sentence."""
    with parsing("is not JSON", where):
        document = json.loads(text, object_pairs_hook=_once)
    try:
        return Profile.model_validate(document)
    except ValidationError as errors:
        raise InputError(_first(errors), where=where, hint=_HINT) from None


def _once(fields: list[tuple[str, object]]) -> dict[str, object]:
    """An object none of whose fields is there twice: of two values one would be ignored."""
    known: dict[str, object] = {}
    for name, value in fields:
        if name in known:
            raise ValueError(f"{name!r} is given twice")
        known[name] = value
    return known


def _first(errors: ValidationError) -> str:
    """What is wrong first, with the field it is in."""
    wrong = errors.errors(include_url=False, include_input=False)[0]
    field, what = ".".join(map(str, wrong["loc"])), wrong["msg"].removeprefix("Value error, ")
    named = {
        "extra_forbidden": "is not a field of a network profile", "missing": "is missing", "too_short": "is empty",
        "model_type": "is no network profile",
    }  # fmt: skip
    if wrong["type"] in named:
        return f"{field} {named[wrong['type']]}".strip()
    return f"{field}: {what}" if field else what

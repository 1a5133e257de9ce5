"""A framework as its adapter file declares it; the file is read, not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from steplab.core.declaration import read_declaration
from steplab_worker.options import Option


@dataclass(frozen=True)
class Refusal:
    """A combination that a framework cannot do, and why.

    `when` maps the framework's own factors, `network`, `optimizer`, `kind`, `strategy` (without its count), `device`,
    `recompute`, `workers` or `nodes` ("one" or "several") to the values for which it holds; all must match.
    """

    when: Mapping[str, tuple[Any, ...]]
    because: str


@dataclass(frozen=True)
class ExchangeHabit:
    """How a framework exchanges gradients: in which messages, and whether while backward still runs."""

    by: str = ""  # what moves them, for people
    grouping: Literal["buckets", "arrays", "whole"] = "whole"  # DDP's buckets, one message per array, or one for all
    overlaps: bool = False
    in_flight: int = 1  # messages at a time
    buffers: bool = False  # whether rank 0's buffers are copied to all before the next forward pass


@dataclass(frozen=True)
class Framework:
    """What a framework's adapter file declares about itself."""

    name: str
    title: str
    pins: tuple[str, ...]
    kinds: tuple[str, ...]
    strategies: tuple[str, ...]
    layers: tuple[str, ...] | None  # None: all kinds of layers
    factors: Mapping[str, Option]
    further_pins: tuple[tuple[str, ...], ...] = ()  # pip's arguments, one tuple a step, after the pins
    module: str | None = None  # the package whose version is the framework's
    reads_data: bool = True  # the virtual ones do not
    debian: tuple[str, ...] = ()
    roles: Mapping[str, int | str] = field(default_factory=dict)  # auxiliary processes beside several ranks
    launcher: str = "local"  # what starts several ranks: a file in runner/ranks/launchers, or an extension
    precisions: tuple[str, ...] = ("float32",)
    recomputes: bool = False  # whether blocks can run forward again in backward
    doors: str = ""  # what listens, without a password, where ranks get no private network
    caches: tuple[str, ...] = ()  # variables that name a folder of things worth keeping, such as compiled code
    strategies_apart: bool = False  # a group of ranks serves one strategy only
    single_process: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    unsupported: tuple[Refusal, ...] = ()
    exchange: ExchangeHabit = ExchangeHabit()

    @property
    def needs_environment(self) -> bool:
        """Whether it runs in an environment of its own; if not, in the laboratory's interpreter."""
        return bool(self.pins)

    def auxiliary(self, ranks: int, options: Mapping[str, Any]) -> dict[str, int]:
        """How many processes of each role stand beside several ranks; a factor of its own may say it, 0 one per rank.

        >>> from steplab.core.catalogue import framework
        >>> framework("mxnet").auxiliary(2, {}), framework("mxnet").auxiliary(2, {"servers": 1})
        ({'scheduler': 1, 'server': 2}, {'scheduler': 1, 'server': 1})
        """
        if ranks == 1:
            return {}
        counts = {role: self._number(count, options) for role, count in self.roles.items()}
        return {role: count or ranks for role, count in counts.items()}

    def _number(self, count: int | str, options: Mapping[str, Any]) -> int:
        return int(options.get(count, self.factors[count].default)) if isinstance(count, str) else count

    @property
    def installs(self) -> tuple[tuple[str, ...], ...]:
        """What pip is called with, one call after the other."""
        return (self.pins, *self.further_pins)


def read_framework(name: str, file: Path) -> Framework:
    """What an adapter file declares; one sentence if its declaration is wrong."""
    declared = read_declaration(file)
    return Framework(
        name=name,
        title=declared["title"],
        pins=tuple(declared["pins"]),
        kinds=tuple(declared["kinds"]),
        strategies=tuple(declared["strategies"]),
        layers=None if declared["layers"] == "all" else tuple(declared["layers"]),
        factors={key: _option(option) for key, option in declared["factors"].items()},
        further_pins=tuple((*step["flags"], *step["packages"]) for step in declared.get("further_pins", ())),
        module=declared.get("module"),
        reads_data=declared.get("reads_data", True),
        debian=tuple(declared.get("debian", ())),
        roles=declared.get("roles", {}),
        launcher=declared.get("launcher", "local"),
        precisions=tuple(declared.get("precisions", ("float32",))),
        recomputes=declared.get("recomputes", False),
        doors=declared.get("doors", ""),
        caches=tuple(declared.get("caches", ())),
        strategies_apart=declared.get("strategies_apart", False),
        exchange=ExchangeHabit(**declared.get("exchange", {})),
        single_process=_listed(declared.get("single_process", {})),
        unsupported=tuple(
            Refusal(_listed(refusal["when"]), refusal["because"]) for refusal in declared.get("unsupported", ())
        ),
    )


def _listed(levels: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) if isinstance(values, list) else (values,) for name, values in levels.items()}


def _option(fields: dict[str, object]) -> Option:
    levels = fields.get("levels")
    return Option(**{**fields, "levels": tuple(levels) if isinstance(levels, list) else None})  # type: ignore[arg-type]

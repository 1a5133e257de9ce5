"""What can be varied: frameworks, networks, data sets and their factors, read without importing any framework."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import steplab_worker
from steplab.core.errors import InputError, nearest
from steplab_worker import data, networks
from steplab_worker.augment import AUGMENTATIONS
from steplab_worker.options import Option

WORKER = Path(steplab_worker.__file__).parent
ADAPTERS = WORKER / "adapters"
MODULE = "module:"  # the prefix of a user's own PyTorch network, package.module:function
STRATEGIES = ("sync", "accumulate", "ps-sync", "ps-async")
OPTIMIZERS = ("sgd", "momentum", "adam")
ENVIRONMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Refusal:
    """A combination that a framework cannot do, and why.

    `when` maps the framework's own factors, `network`, `optimizer`, `kind`, `strategy` (without its count) or
    `workers` ("one" or "several") to the values for which it holds; all must match.
    """

    when: Mapping[str, tuple[Any, ...]]
    because: str


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
    launcher: str = "local"  # what starts several ranks: the name of a file in runner/ranks/launchers
    doors: str = ""  # what listens, without a password, where ranks get no private network
    caches: tuple[str, ...] = ()  # variables that name a folder of things worth keeping, such as compiled code
    strategies_apart: bool = False  # a group of ranks serves one strategy only
    single_process: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    unsupported: tuple[Refusal, ...] = ()

    @property
    def needs_environment(self) -> bool:
        """Whether it runs in an environment of its own; if not, in the laboratory's interpreter."""
        return bool(self.pins)

    def auxiliary(self, ranks: int, options: Mapping[str, Any]) -> dict[str, int]:
        """How many processes of each role stand beside several ranks; a factor of its own may say it, 0 one per rank.

        >>> framework("mxnet").auxiliary(2, {}), framework("mxnet").auxiliary(2, {"servers": 1})
        ({'scheduler': 1, 'server': 2}, {'scheduler': 1, 'server': 1})
        """
        if ranks == 1:
            return {}
        counts = {role: self._number(said, options) for role, said in self.roles.items()}
        return {role: count or ranks for role, count in counts.items()}

    def _number(self, said: int | str, options: Mapping[str, Any]) -> int:
        return int(options.get(said, self.factors[said].default)) if isinstance(said, str) else said

    @property
    def installs(self) -> tuple[tuple[str, ...], ...]:
        """What pip is called with, one call after the other."""
        return (self.pins, *self.further_pins)


def environment_problem(name: object) -> str:
    """What is wrong with the name of an environment, or an empty string: a study must not lead to other folders.

    >>> environment_problem("nightly"), environment_problem("../x")
    ('', 'must be the name of an environment: letters, digits, dot, dash, underscore')
    """
    right = isinstance(name, str) and ENVIRONMENT_NAME.fullmatch(name) is not None
    return "" if right else "must be the name of an environment: letters, digits, dot, dash, underscore"


def framework_names() -> list[str]:
    """All frameworks, by name; nothing is imported."""
    return sorted(_adapter_files())


@cache
def _adapter_files() -> Mapping[str, Path]:
    """Each framework's adapter: a file, or the `__init__` of a folder."""
    folders = {path.parent.name: path for path in ADAPTERS.glob("*/__init__.py")}
    return folders | {path.stem: path for path in ADAPTERS.glob("[!_]*.py")}


@cache
def framework(name: str) -> Framework:
    """The declaration in a framework's adapter file.

    >>> framework("synthetic").strategies
    ('sync', 'accumulate', 'ps-async')
    """
    if name not in framework_names():
        raise InputError(f"there is no framework {name!r}", hint=nearest(name, framework_names()))
    tree = ast.parse(_adapter_files()[name].read_text(encoding="utf-8"))
    literal = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DECLARATION"
    )
    said = ast.literal_eval(literal)
    return Framework(
        name=name,
        title=said["title"],
        pins=tuple(said["pins"]),
        kinds=tuple(said["kinds"]),
        strategies=tuple(said["strategies"]),
        layers=None if said["layers"] == "all" else tuple(said["layers"]),
        factors={key: _option(one) for key, one in said["factors"].items()},
        further_pins=tuple((*step["flags"], *step["packages"]) for step in said.get("further_pins", ())),
        module=said.get("module"),
        reads_data=said.get("reads_data", True),
        debian=tuple(said.get("debian", ())),
        roles=said.get("roles", {}),
        launcher=said.get("launcher", "local"),
        doors=said.get("doors", ""),
        caches=tuple(said.get("caches", ())),
        strategies_apart=said.get("strategies_apart", False),
        single_process=_listed(said.get("single_process", {})),
        unsupported=tuple(Refusal(_listed(one["when"]), one["because"]) for one in said.get("unsupported", ())),
    )


def _listed(said: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) if isinstance(values, list) else (values,) for name, values in said.items()}


def _option(said: dict[str, object]) -> Option:
    levels = said.get("levels")
    return Option(**{**said, "levels": tuple(levels) if isinstance(levels, list) else None})  # type: ignore[arg-type]


@cache
def network_options(name: str) -> Mapping[str, Option]:
    """What a network lets a study vary; nothing for a user's own."""
    if name.startswith(MODULE):
        return {}
    if name not in networks.names():
        raise InputError(f"there is no network {name!r}", hint=nearest(name, networks.names()))
    options: Mapping[str, Option] = networks.module(name).OPTIONS
    return options


@cache
def general() -> Mapping[str, Option]:
    """The factors that every trial has, whatever its framework and network."""
    return {
        "framework": Option("torch", "what runs the network", levels=tuple(framework_names())),
        "network": Option("lenet5", "the neural network", levels=tuple(networks.names())),
        "dataset": Option("mnist", "the data set", levels=tuple(sorted(data.datasets()))),
        "batch_size": Option(32, "samples per worker and iteration", low=1, high=1 << 24),
        "global_batch_size": Option(32, "samples of all workers per iteration", low=1, high=1 << 30),
        "environment": Option("", "name of the environment, if not the framework's own"),
        "workers": Option(1, "rank processes", low=1, high=4096),
        "threads": Option(1, "threads of each rank", low=1, high=4096),
        "strategy": Option("sync", "how workers cooperate: sync, accumulate:k, ps-sync, ps-async"),
        "optimizer": Option("sgd", "update rule", levels=OPTIMIZERS),
        "learning_rate": Option(0.01, "step size of the optimiser", low=0.0, high=1e6),
        "augment": Option("none", "how images are varied after reading", levels=tuple(AUGMENTATIONS)),
        "loader_workers": Option(0, "background workers of the data loader", low=0, high=256),
        "prefetch": Option(2, "batches read ahead by each background worker", low=1, high=1024),
    }


def known_factors(frameworks: list[str], network_names: list[str]) -> dict[str, Option]:
    """Every factor that at least one of these frameworks or networks knows."""
    known = dict(general())
    for network in network_names:
        known.update(network_options(network))
    for name in frameworks:
        known.update(framework(name).factors)
    return known

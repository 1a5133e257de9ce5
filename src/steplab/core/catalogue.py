"""What can be varied: frameworks, networks, data sets and their factors, read without importing any framework.

Frameworks and networks are our own files or those of extensions; to everybody else they are names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import steplab_worker
from steplab.core.errors import InputError, nearest
from steplab.core.extensions import Extension, extensions
from steplab.core.framework import Framework, read_framework
from steplab.core.own_code import is_own
from steplab.core.parsing import parsing
from steplab.core.trial import PRECISIONS
from steplab_worker import data, networks
from steplab_worker.augment import AUGMENTATIONS
from steplab_worker.graph import Graph, GraphError
from steplab_worker.options import Option

WORKER = Path(steplab_worker.__file__).parent
ADAPTERS = WORKER / "adapters"
OPTIMIZERS = ("sgd", "momentum", "adam")
DEVICES = ("auto", "cpu", "cuda")  # auto: a GPU where there is one
ENVIRONMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def environment_problem(name: object) -> str:
    """What is wrong with the name of an environment, or an empty string: a study must not lead to other folders.

    >>> environment_problem("nightly"), environment_problem("../x")
    ('', 'must be the name of an environment: letters, digits, dot, dash, underscore')
    """
    right = isinstance(name, str) and ENVIRONMENT_NAME.fullmatch(name) is not None
    return "" if right else "must be the name of an environment: letters, digits, dot, dash, underscore"


def framework_names() -> list[str]:
    """All frameworks that can be used, by name; nothing is imported."""
    return sorted([*_adapter_files(), *_usable(framework_extensions())])


@cache
def _adapter_files() -> Mapping[str, Path]:
    """Each of our own frameworks' adapter: a file, or the `__init__` of a folder."""
    folders = {path.parent.name: path for path in ADAPTERS.glob("*/__init__.py")}
    return folders | {path.stem: path for path in ADAPTERS.glob("[!_]*.py")}


@cache
def framework_extensions() -> Mapping[str, Extension]:
    """The frameworks that other distributions add, by name, with what is wrong with them."""
    return {name: _declared(extension) for name, extension in extensions("framework", tuple(_adapter_files())).items()}


def _declared(extension: Extension) -> Extension:
    """The extension, broken if its declaration is wrong."""
    try:
        extended = read_framework(extension.name, extension.usable_file())
    except InputError as error:
        return extension if extension.problem else extension.broken(str(error))
    taken = sorted(set(extended.factors) & set(_general_factors()))
    return extension.broken(f"its factor {taken[0]!r} is one that every trial has") if taken else extension


def _usable(extensions: Mapping[str, Extension]) -> list[str]:
    return [name for name, extension in extensions.items() if not extension.problem]


def broken_extension(factor: str, level: object) -> str:
    """Why a level of `framework` or `network` cannot be used, if an extension that is broken has that name."""
    known = {"framework": (_adapter_files(), framework_extensions), "network": (networks.names(), network_extensions)}
    builtin, added = known.get(factor, ((), dict))
    broken = {name: extension.problem for name, extension in added().items() if name not in builtin}
    return broken.get(str(level), "")


def distributions(framework: str, network: str) -> dict[str, str]:
    """Which distributions, in which version, a framework and a network come from, if they are extensions."""
    extensions = {"framework": framework_extensions().get(framework), "network": network_extensions().get(network)}
    usable = ((kind, extension) for kind, extension in extensions.items() if extension and not extension.problem)
    return {f"{kind}_distribution": extension.distribution for kind, extension in usable}


def adapter_file(name: str) -> str:
    """The file from which a rank loads a framework's adapter, if it is an extension; empty if it is our own."""
    return "" if name in _adapter_files() else str(framework_extensions()[name].usable_file())


@cache
def framework(name: str) -> Framework:
    """The declaration in a framework's adapter file.

    >>> framework("synthetic").strategies
    ('sync', 'accumulate', 'ps-async')
    """
    if name in _adapter_files():
        return read_framework(name, _adapter_files()[name])
    if name not in framework_extensions():
        raise InputError(f"there is no framework {name!r}", hint=nearest(name, framework_names()))
    return read_framework(name, framework_extensions()[name].usable_file())


def network_names() -> list[str]:
    """All networks that can be used, by name; nothing is imported."""
    return sorted([*networks.names(), *_usable(network_extensions())])


@cache
def network_extensions() -> Mapping[str, Extension]:
    """The networks that other distributions add, by name, with what is wrong with them."""
    return extensions("network", tuple(networks.names()))


def network_file(name: str) -> str:
    """The file that describes a network, if it is an extension; empty if it is our own, or a user's `module:…`."""
    if name in networks.names() or is_own(name):
        return ""
    if name not in network_extensions():
        raise InputError(f"there is no network {name!r}", hint=nearest(name, network_names()))
    return str(network_extensions()[name].usable_file())


@cache
def network_options(name: str) -> Mapping[str, Option]:
    """What a network lets a study vary; nothing for a user's own."""
    if is_own(name):
        return {}
    options: Mapping[str, Option] = network_module(name).OPTIONS
    return options


@cache
def network_module(name: str) -> Any:
    """A network's file as a module.

    That of an extension runs here: its distribution has been installed, and its path comes from there alone, never from
    a study or a record.
    """
    file = network_file(name)
    if not file:
        return networks.module(name)
    with parsing("cannot be used as a network", file):
        module = networks.module(name, file)
        _check_options(module.OPTIONS)
        return module


def _check_options(options: Mapping[str, Option]) -> None:
    for name, option in options.items():
        if not isinstance(option, Option):
            raise TypeError(f"OPTIONS[{name!r}] is not an Option")
        if name in _general_factors():
            raise ValueError(f"its option {name!r} is a factor that every trial has")


def build_network(
    name: str,
    options: Mapping[str, Any] | None = None,
    input_shape: Sequence[int] | None = None,
    classes: int | None = None,
) -> Graph:
    """The graph of a network; a GraphError says why there is none with these options for such samples.

    >>> build_network("lenet5").parameters
    61706
    """
    known = network_options(name)  # what is wrong with its file is one sentence
    for option, value in (options or {}).items():
        # Records and models are other people's: a billion layers would be built for ever.
        if option in known and (problem := known[option].problem(value)):
            raise GraphError(f"{option} = {value!r} {problem}")
    try:
        return networks.build(name, options, input_shape, classes, network_file(name))
    except (GraphError, InputError):
        raise
    except Exception as error:
        if not network_file(name):
            raise
        raise InputError(f"the network cannot be built ({type(error).__name__}: {error})", where=name) from error


@cache
def general() -> Mapping[str, Option]:
    """The factors that every trial has, whatever its framework and network."""
    return {
        **_general_factors(),
        "framework": Option("torch", "what runs the network", levels=tuple(framework_names())),
        "network": Option("lenet5", "the neural network", levels=tuple(network_names())),
    }


@cache
def _general_factors() -> Mapping[str, Option]:
    """The same, whatever frameworks and networks there are."""
    return {
        "framework": Option("torch", "what runs the network"),
        "network": Option("lenet5", "the neural network"),
        "dataset": Option("mnist", "the data set", levels=tuple(sorted(data.datasets()))),
        "batch_size": Option(32, "samples per worker and iteration", low=1, high=1 << 24),
        "global_batch_size": Option(32, "samples of all workers per iteration", low=1, high=1 << 30),
        "environment": Option("", "name of the environment, if not the framework's own"),
        "workers": Option(1, "rank processes", low=1, high=4096),
        "nodes": Option(1, "hosts that the workers are on", low=1, high=4096),
        "ranks_per_node": Option(1, "workers on each host", low=1, high=4096),
        "placement": Option("", "hosts for the workers, if not the executor's: net:NAME, a cluster in a box"),
        "rate": Option("", "of each host's line in a cluster in a box: unshaped, 1gbit, 100mbit; empty: as it is"),
        "device": Option("auto", "what the workers compute on", levels=DEVICES),
        "threads": Option(1, "threads of each rank", low=1, high=4096),
        "strategy": Option("sync", "how workers cooperate: sync, accumulate:k, sharded, ps-sync, ps-async"),
        "optimizer": Option("sgd", "update rule", levels=OPTIMIZERS),
        "learning_rate": Option(0.01, "step size of the optimiser", low=0.0, high=1e6),
        "precision": Option("float32", "numbers of products; weights stay float32", levels=PRECISIONS),
        "recompute": Option(False, "blocks run forward again in backward, to save memory", levels=(False, True)),
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

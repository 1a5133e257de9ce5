"""The network of a trial as a workload, from the trial's configuration alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.core.parsing import parsing
from steplab.core.resolution import Resolved, resolve
from steplab.core.trial import Config, accumulation
from steplab.costs.operation import Workload, from_graph
from steplab.runner.environments.user_networks import trace_module
from steplab_worker import data
from steplab_worker.graph import GraphError


def workload_of(config: Config, modules: Path | None = None) -> tuple[Resolved, Workload]:
    """A configuration with its defaults, and its network at its batch size and on its data.

    Counting a network of the user runs its code, so the folder that it is in must be named: a configuration may come
    from a stranger's record.

    >>> workload_of({"network": "lenet5", "batch_size": 8})[1].operations[0].output_shape
    (8, 6, 28, 28)
    """
    _expect_ours(config)
    resolved = resolve(config)
    spec = data.spec(resolved.dataset)
    if resolved.network.startswith("module:"):
        return resolved, _own_network(resolved, spec.shape, modules)
    try:
        graph = catalogue.build_network(resolved.network, resolved.network_options, spec.shape, spec.classes)
    except GraphError as error:
        raise InputError(str(error), where=resolved.network) from error
    return resolved, from_graph(graph, resolved.batch_size)


def _expect_ours(config: Config) -> None:
    """Say so if a level is none of steplab's: imported trials call their frameworks and networks as they like."""
    for name, option in catalogue.general().items():
        own = name == "network" and str(config.get(name, "")).startswith(catalogue.MODULE)
        problem = "" if own or name not in config else option.problem(config[name])
        if problem:
            raise InputError(f"{name} = {config[name]!r} {problem}, so nothing can be counted")
    with parsing("is no strategy", str(config.get("strategy"))):
        accumulation(str(config.get("strategy", "sync")))


def _own_network(resolved: Resolved, shape: Sequence[int], modules: Path | None) -> Workload:
    if modules is None:
        hint = "allow it with --modules DIR, the folder that the module is in"
        raise InputError("counting a network of one's own runs its code", where=resolved.network, hint=hint)
    return trace_module(resolved.network, resolved.batch_size, shape, folder=modules)

"""The network of a trial as a workload, from the trial's configuration alone."""

from __future__ import annotations

from steplab.core.errors import InputError
from steplab.core.feasible import Resolved, resolve
from steplab.core.trial import Config
from steplab.costs.operation import Workload, from_graph
from steplab_worker import data, networks
from steplab_worker.graph import GraphError


def workload_of(config: Config) -> tuple[Resolved, Workload]:
    """A configuration with its defaults, and its network at its batch size and on its data.

    >>> workload_of({"network": "lenet5", "batch_size": 8})[1].operations[0].output_shape
    (8, 6, 28, 28)
    """
    resolved = resolve(config)
    spec = data.spec(resolved.dataset)
    if resolved.network.startswith("module:"):
        from steplab.runner.modules import trace_module

        return resolved, trace_module(resolved.network, resolved.batch_size, spec.shape)
    try:
        graph = networks.build(resolved.network, resolved.network_options, spec.shape, spec.classes)
    except GraphError as error:
        raise InputError(str(error), where=resolved.network) from error
    return resolved, from_graph(graph, resolved.batch_size)

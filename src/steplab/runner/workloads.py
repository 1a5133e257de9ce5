"""The network of a trial as a workload, from the trial's configuration alone."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from steplab import kinds
from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.core.own_code import CODE, FACTORS, ONNX, CodeUse, code_use, is_file, is_own
from steplab.core.parsing import parsing
from steplab.core.resolution import Resolved, data_spec, resolve
from steplab.core.trial import Config, accumulation
from steplab.costs.onnx_graph import read_onnx
from steplab.costs.operation import Workload, from_graph
from steplab.runner.environments.own_code import examine
from steplab.runner.environments.user_networks import OwnPlace, trace_module
from steplab_worker.graph import GraphError


def workload_of(config: Config, modules: Path | None = None, kind: str = "step") -> tuple[Resolved, Workload]:
    """A configuration with its defaults, and its network at its batch size and on its data.

    Counting a network of the user runs its code, so the folder that it is in must be named: a configuration may come
    from a stranger's record. It must be the code that was measured, by a trial of that kind.

    >>> workload_of({"network": "lenet5", "batch_size": 8})[1].operations[0].output_shape
    (8, 6, 28, 28)
    """
    _expect_ours(config)
    resolved = resolve(config)
    spec = data_spec(resolved)
    if is_own(resolved.network):
        return resolved, _own_network(config, resolved, modules, kind)
    try:
        graph = catalogue.build_network(resolved.network, resolved.network_options, spec.shape, spec.classes)
    except GraphError as error:
        raise InputError(str(error), where=resolved.network) from error
    return resolved, from_graph(graph, resolved.batch_size)


def _expect_ours(config: Config) -> None:
    """Say so if a level is none of steplab's: imported trials call their frameworks and networks as they like."""
    for name, option in catalogue.general().items():
        own = name in FACTORS and is_own(config.get(name))
        problem = "" if own or name not in config else option.problem(config[name])
        if problem:
            raise InputError(f"{name} = {config[name]!r} {problem}, so nothing can be counted")
    with parsing("is no strategy", str(config.get("strategy"))):
        accumulation(str(config.get("strategy", "sync")))


def _own_network(config: Config, resolved: Resolved, modules: Path | None, kind: str) -> Workload:
    if modules is None:
        raise _unallowed(resolved.network)
    _expect_measured(config, modules, kind)
    spec, dataset = data_spec(resolved), resolved.dataset if is_own(resolved.dataset) else ""
    if is_file(resolved.network):
        return read_onnx(str(modules / resolved.network.removeprefix(ONNX)), resolved.batch_size, spec.shape)
    place = OwnPlace(modules, resolved.environment, dataset)
    return trace_module(resolved.network, resolved.batch_size, spec.shape, place, tokens=spec.is_text)


def _unallowed(network: str) -> InputError:
    if is_file(network):
        hint = "give its folder with --modules DIR"
        return InputError("where the file is, nobody has said", where=network, hint=hint)
    hint = "allow it with --modules DIR, the folder that the module is in"
    return InputError("counting a network of one's own runs its code", where=network, hint=hint)


def _expect_measured(config: Config, modules: Path, kind: str) -> None:
    """The code that would be counted must be the code that was timed."""
    use, measured = code_use(config), str(config.get(CODE, ""))
    hint = "restore it, or run the study again"
    if use is None or not measured:
        what = "nobody noted which code was measured, so counting it now may count another network"
        raise InputError(what, where=str(config["network"]), hint="run the study again")
    code = _code_now(use, modules.absolute(), kind)
    if code != measured:
        raise InputError(
            f"its code was {measured} when it was measured and is {code} now", where=use.network, hint=hint
        )


@lru_cache(maxsize=256)
def _code_now(use: CodeUse, modules: Path, kind: str) -> str:
    return examine([use], modules, kinds.named(kind), use.network).identities[use].code

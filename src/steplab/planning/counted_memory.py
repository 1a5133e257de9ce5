"""The memory of configurations, counted from their networks: for limits where nobody fitted a model of it.

A model of a study of built-in networks knows the whole configuration: its factors, and what the study held fixed. What
is counted is what one worker's step holds (`steplab.costs.memory`), not what a process was measured to take.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.core.own_code import is_own
from steplab.core.resolution import Resolved, applicable, graph_of, resolve
from steplab.core.trial import Level
from steplab.costs.memory import memory
from steplab.costs.mixed_precision import COUNTED as PRECISIONS_COUNTED
from steplab.costs.network import OPTIMIZERS
from steplab.costs.operation import from_graph
from steplab.models.base import PerformanceModel
from steplab.models.columns.setting import KIND
from steplab.planning.estimate import Estimate
from steplab_worker.graph import GraphError

COUNTED = (
    "memory is counted, not measured: what a worker's step holds as PyTorch's eager mode keeps it, on a CPU with what"
    " the allocator keeps; the framework itself, some hundred MB, comes on top"
)
# Factors that memory, as it is counted, does not depend on, so that they need not be known.
NO_MEMORY = ("threads", "learning_rate", "augment", "loader_workers", "prefetch", "environment", "placement", "rate")
HINT = "give a model of it: steplab fit DIR --target memory_bytes --out memory.json, then --also memory.json"


def counted_memory(model: PerformanceModel, frame: pd.DataFrame) -> list[Estimate]:
    """The bytes that one worker of each configuration holds at most; what cannot be counted is one sentence."""
    fixed = _fixed(model)
    known: dict[str, Estimate] = {}
    counted = []
    for row in frame.to_dict("records"):
        resolved = _resolved(fixed | {str(name): level for name, level in row.items()})
        key = repr(_what_matters(resolved))
        if key not in known:
            known[key] = _counted(resolved)
        counted.append(known[key])
    return counted


def _fixed(model: PerformanceModel) -> dict[str, Level]:
    """What the study held fixed; every factor that it varied and that memory depends on must be in the model."""
    if model.study_setting_ is None:
        raise _cannot("the model file does not say what its rows had in common: it is of no study, or older")
    setting = dict(model.study_setting_)
    kind = setting.pop(KIND, "step")
    if kind not in ("step", "train"):
        raise _cannot("its trials are not all of training")
    unknown = sorted(name for name, level in setting.items() if level is None and name not in NO_MEMORY)
    if unknown:
        raise _cannot(f"the study varied {', '.join(unknown)}, which the model does not read")
    return {name: level for name, level in setting.items() if level is not None}


def _resolved(levels: Mapping[str, Level]) -> Resolved:
    """The configuration of levels as tables have them: whole numbers as floats, truth as text."""
    general = catalogue.general()
    framework, network = (str(levels.get(name, general[name].default)) for name in ("framework", "network"))
    if network not in catalogue.network_names() or framework not in catalogue.framework_names():
        raise _cannot(f"{network} in {framework} is none of the built-in networks and frameworks")
    options = catalogue.known_factors([framework], [network])
    typed = {name: _typed(level, options[name].default) for name, level in levels.items() if name in options}
    for name, level in typed.items():
        if problem := "" if is_own(level) else options[name].problem(level):
            raise _cannot(f"{name} = {level!r} {problem}")
    return resolve(applicable(typed))


def _typed(level: Level, default: object) -> Level:
    """A level as its factor has it; one that is none of its levels stays what it is."""
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(str(level).lower(), level)
    if not isinstance(default, int | float):
        return level
    try:
        return round(float(level)) if isinstance(default, int) else float(level)
    except (ValueError, OverflowError):
        return level


def _what_matters(resolved: Resolved) -> tuple[object, ...]:
    """What memory depends on."""
    return (
        resolved.network, resolved.network_options, resolved.dataset, resolved.sample, resolved.batch_size,
        resolved.optimizer, resolved.precision, resolved.recompute, resolved.device,
        resolved.shards, resolved.workers > 1,
    )  # fmt: skip


def _counted(resolved: Resolved) -> Estimate:
    try:
        graph = graph_of(resolved)
    except GraphError as error:
        raise _cannot(str(error)) from error
    if graph is None:
        raise _cannot("a network or data set of one's own has no graph")
    if resolved.optimizer not in OPTIMIZERS:
        raise _cannot(f"the state of {resolved.optimizer} is not known")
    if resolved.precision not in PRECISIONS_COUNTED:
        raise _cannot(f"what {resolved.precision} holds is not known")
    workload, shards = from_graph(graph, resolved.batch_size), resolved.shards
    held = memory(
        workload, resolved.optimizer, resolved.recompute, shards, resolved.precision,
        exchanges=resolved.workers > shards,
    )  # fmt: skip
    peak, beside = float(held.peak_bytes), held.beside
    if resolved.device == "cuda" or beside is None:  # whose arrays do not lie in the C library's heap
        return Estimate(peak, peak, peak)
    low, high = beside.ends
    return Estimate(peak + beside.bytes, peak + low, peak + high)


def _cannot(why: str) -> InputError:
    return InputError(f"memory cannot be counted: {why}", where="within", hint=HINT)

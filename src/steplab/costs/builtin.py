"""A network of the catalogue by name, with checked options, as a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steplab.core import catalogue
from steplab.core.errors import InputError, nearest
from steplab.costs.operation import Workload, from_graph
from steplab_worker.graph import GraphError
from steplab_worker.options import Option


def builtin(
    name: str,
    batch: int = 1,
    input_shape: Sequence[int] | None = None,
    classes: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Workload:
    """The network of that name at a batch size; options are given as text and read by their kind.

    >>> builtin("lenet5", batch=8).operations[0].output_shape
    (8, 6, 28, 28)
    """
    if name not in catalogue.network_names() and name not in catalogue.network_extensions():
        hint = nearest(name, catalogue.network_names()) + ", onnx:FILE, module:PACKAGE.MODULE:FUNCTION"
        raise InputError(f"there is no network {name!r}", hint=hint)
    known = catalogue.network_options(name)
    values = {key: _value(name, known, key, text) for key, text in (options or {}).items()}
    if input_shape is None and "sequence" in values:  # a text is cut into samples as long as the network takes
        input_shape = (values["sequence"],)
    try:
        return from_graph(catalogue.build_network(name, values, input_shape, classes), batch)
    except GraphError as error:
        raise InputError(str(error), where=name) from error


def _value(name: str, known: Mapping[str, Option], key: str, text: str) -> Any:
    if key not in known:
        raise InputError(f"{name} has no option {key!r}", hint=nearest(key, known))
    option = known[key]
    value = _read(text, option.default)
    problem = option.problem(value)
    if problem:
        raise InputError(f"option {key} {problem}, not {text!r}", where=name)
    return value


def _read(text: str, default: Any) -> Any:
    """The text as a value of the default's type; as it stands if it is none."""
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return type(default)(text)
    except ValueError:
        return text

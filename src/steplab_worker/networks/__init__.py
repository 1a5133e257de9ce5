"""Networks: one file each, described once for all frameworks.

A network file holds `OPTIONS` (what a study may vary), `PARAMETERS` (the published or derived number of trainable
parameters at the defaults, asserted by the contract tests), `INPUT` and `CLASSES` (its usual data), and
`build(input_shape, classes, **options) -> Graph`.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, List, Mapping, Optional, Sequence

from steplab_worker import sources
from steplab_worker.graph import Graph


def names() -> List[str]:
    """All networks, by name; nothing is imported."""
    files = os.listdir(os.path.dirname(os.path.abspath(__file__)))
    return sorted(file[:-3] for file in files if file.endswith(".py") and not file.startswith("_"))


def module(name: str, file: str = "") -> Any:
    """The network's file as a module; that of an extension is loaded from its path."""
    own = "%s.%s" % (__name__, name)
    return sources.load(own, file) if file else importlib.import_module(own)


def build(
    name: str,
    options: Optional[Mapping[str, Any]] = None,
    input_shape: Optional[Sequence[int]] = None,
    classes: Optional[int] = None,
    file: str = "",
) -> Graph:
    """The graph of a network, at its usual input and number of classes unless given; an extension has a file.

    >>> build("lenet5").parameters
    61706
    """
    net = module(name, file)
    full = {key: option.default for key, option in net.OPTIONS.items()}
    full.update(options or {})
    return net.build(tuple(input_shape or net.INPUT), net.CLASSES if classes is None else classes, **full)

"""A user's own PyTorch network, named `module:package.module:function`: a function that returns an `nn.Module`.

Only the worker imports it: the user's code never runs in the laboratory.
"""

from __future__ import annotations

import importlib
import sys
from typing import Callable, Sequence

from torch import nn

PREFIX = "module:"


class FactoryError(Exception):
    """The user's network cannot be made; the message says what was named and why."""


def load_factory(spec: str, paths: Sequence[str] = ()) -> Callable[[], nn.Module]:
    """The function that a `module:package.module:function` names, looked for in `paths` last."""
    name, colon, function = spec[len(PREFIX) :].partition(":") if spec.startswith(PREFIX) else ("", "", "")
    if not (name and colon and function):
        raise FactoryError("%r is not of the form module:package.module:function" % spec)
    sys.path.extend(path for path in paths if path not in sys.path)
    try:
        factory = getattr(importlib.import_module(name), function)
    except Exception as error:  # the user's own code may raise anything
        raise FactoryError("%s: %s: %s" % (spec, type(error).__name__, error)) from error
    if not callable(factory):
        raise FactoryError("%s: %s is not a function" % (spec, function))
    return factory


def make_module(spec: str, paths: Sequence[str] = ()) -> nn.Module:
    """Call the factory and check what it returns."""
    factory = load_factory(spec, paths)
    try:
        made = factory()
    except Exception as error:  # the user's own code may raise anything
        raise FactoryError("%s: %s: %s" % (spec, type(error).__name__, error)) from error
    if not isinstance(made, nn.Module):
        raise FactoryError("%s returned a %s, not an nn.Module" % (spec, type(made).__name__))
    return made

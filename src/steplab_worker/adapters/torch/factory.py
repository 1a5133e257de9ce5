"""A user's own functions, named `module:package.module:function`: networks, data sets and training steps for PyTorch.

Only the worker imports them: the user's code never runs in the laboratory.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any, Callable, Sequence, Tuple

from torch import nn

PREFIX = "module:"


class FactoryError(Exception):
    """The user's function is not there or does not work; the message says what was named and why."""


def is_own(name: object) -> bool:
    """Whether a level names a user's function.

    >>> is_own("module:net:make"), is_own("lenet5")
    (True, False)
    """
    return isinstance(name, str) and name.startswith(PREFIX)


def named_parts(spec: str) -> Tuple[str, str]:
    """The module and the function that a `module:package.module:function` names."""
    name, colon, function = spec[len(PREFIX) :].partition(":") if is_own(spec) else ("", "", "")
    if not (name and colon and function):
        raise FactoryError("%r is not of the form module:package.module:function" % spec)
    return name, function


def load_factory(spec: str, paths: Sequence[str] = ()) -> Callable[..., Any]:
    """The function that a `module:package.module:function` names, looked for in `paths` last."""
    name, function = named_parts(spec)
    sys.path.extend(path for path in paths if path not in sys.path)
    module = explained(spec, lambda: importlib.import_module(name))
    if not hasattr(module, function):
        raise FactoryError("%s: there is no %r in %s%s" % (spec, function, _place(module), _hidden(module, name)))
    factory = getattr(module, function)
    if not callable(factory):
        raise FactoryError("%s: %s is not a function" % (spec, function))
    return factory


def explained(spec: str, work: Callable[[], Any]) -> Any:
    """What the user's code gives; whatever it raises becomes a FactoryError."""
    try:
        return work()
    except FactoryError:
        raise  # says already what is wrong
    except Exception as error:  # the user's own code may raise anything
        raise FactoryError("%s: %s: %s" % (spec, type(error).__name__, error)) from error


def _place(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "the built-in module %s" % module.__name__


def _hidden(module: ModuleType, name: str) -> str:
    """A word on a file of the user's that an installed module of the same name hides: it is searched first."""
    relative = name.replace(".", os.sep)
    candidates = [os.path.join(folder, relative + ".py") for folder in sys.path]
    files = [file for file in candidates if os.path.exists(file) and file != getattr(module, "__file__", None)]
    return ", which hides %s: rename that file" % files[-1] if files else ""


def make_module(spec: str, paths: Sequence[str] = ()) -> nn.Module:
    """Call the factory and check what it returns."""
    factory = load_factory(spec, paths)
    module = explained(spec, factory)
    if not isinstance(module, nn.Module):
        raise FactoryError("%s returned a %s, not an nn.Module" % (spec, type(module).__name__))
    return module

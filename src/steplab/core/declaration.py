"""The declaration in a framework's adapter file, read as a literal and checked; the file is not run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from steplab.core.errors import InputError, allowed
from steplab.core.extensions import parsed
from steplab.core.trial import PRECISIONS, STRATEGIES, kind_names

# What each key means: `steplab_worker/adapter.py`.
REQUIRED: Mapping[str, type | tuple[type, ...]] = {
    "title": str,
    "pins": list,
    "kinds": list,
    "strategies": list,
    "layers": (list, str),
    "factors": dict,
}
OPTIONAL: Mapping[str, type | tuple[type, ...]] = {
    "further_pins": list,
    "module": str,
    "reads_data": bool,
    "debian": list,
    "roles": dict,
    "launcher": str,
    "precisions": list,
    "recomputes": bool,
    "doors": str,
    "caches": list,
    "strategies_apart": bool,
    "single_process": dict,
    "unsupported": list,
    "exchange": dict,
}
EXCHANGE: Mapping[str, tuple[object, ...]] = {
    "grouping": ("buckets", "arrays", "whole"),
    "overlaps": (True, False),
    "in_flight": tuple(range(1, 1025)),
    "buffers": (True, False),
}
OPTION = ("default", "help", "levels", "low", "high", "shapes")


def read_declaration(file: Path) -> Mapping[str, Any]:
    """The literal `DECLARATION` of an adapter file; one sentence if there is something wrong with it."""
    declaration = _literal(file)
    if problem := _problem(declaration):
        raise InputError(f"DECLARATION {problem}", where=str(file))
    return declaration


def _literal(file: Path) -> Mapping[str, Any]:
    values = (
        node.value
        for node in parsed(file).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DECLARATION"
    )
    try:
        literal = ast.literal_eval(next(values))
    except StopIteration:
        raise InputError("there is no DECLARATION", where=str(file)) from None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise InputError(
            "DECLARATION must be a literal, for it is read without running the file", where=str(file)
        ) from None
    if not isinstance(literal, dict):
        raise InputError("DECLARATION must be a dict", where=str(file))
    return literal


def _problem(declaration: Mapping[str, Any]) -> str:
    known = {**REQUIRED, **OPTIONAL}
    for key, value in declaration.items():
        if key not in known:
            return f"has an unknown key {key!r} ({allowed(known)})"
        if not isinstance(value, known[key]):
            return f"has a {type(value).__name__} as {key!r}, which must be a {_name(known[key])}"
    missing = [key for key in REQUIRED if key not in declaration]
    return f"lacks {', '.join(map(repr, missing))}" if missing else _deeper(declaration)


def _name(kind: type | tuple[type, ...]) -> str:
    return kind.__name__ if isinstance(kind, type) else " or ".join(allowed.__name__ for allowed in kind)


def _deeper(declaration: Mapping[str, Any]) -> str:
    return (
        _among("kinds", declaration["kinds"], kind_names())
        or _among("strategies", declaration["strategies"], STRATEGIES)
        or _among("precisions", declaration.get("precisions", ()), PRECISIONS)
        or ("" if isinstance(declaration["layers"], list) or declaration["layers"] == "all" else "has odd 'layers'")
        or _exchange(declaration.get("exchange", {}))
        or next(filter(None, (_factor(name, fields) for name, fields in declaration["factors"].items())), "")
    )


def _among(key: str, values: Iterable[object], right: Iterable[object]) -> str:
    wrong = [value for value in values if value not in tuple(right)]
    return f"has {wrong[0]!r} among {key!r} ({allowed(right)})" if wrong else ""


def _exchange(habit: Mapping[str, object]) -> str:
    wrong = [key for key, value in habit.items() if key != "by" and value not in EXCHANGE.get(key, ())]
    return f"has an odd {wrong[0]!r} in 'exchange'" if wrong else ""


def _factor(name: object, fields: object) -> str:
    if not isinstance(fields, dict) or not {"default", "help"} <= set(fields):
        return f"has a factor {name!r} without default and help"
    return _among(f"factors[{name}]", fields, OPTION)

"""Performance models: one file each, found by name.

A model file defines `MODEL`, its subclass of `PerformanceModel`; the file `generic_de.py` is the model
`generic-de`. Files without `MODEL` hold what models share. Nothing is imported until a model is asked for.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from steplab.core.errors import ModelError, nearest

if TYPE_CHECKING:
    from steplab.models.base import PerformanceModel


def _defines_model(tree: ast.Module) -> bool:
    targets = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    return any(isinstance(target, ast.Name) and target.id == "MODEL" for target in targets)


@cache
def model_summaries() -> Mapping[str, str]:
    """Every model's name and the first line of its file's docstring, read without importing it."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if _defines_model(tree):
            found[path.stem.replace("_", "-")] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def model_names() -> list[str]:
    """The names of all models.

    >>> "generic" in model_names()
    True
    """
    return list(model_summaries())


def load_model_class(name: str) -> type[PerformanceModel]:
    """The class of the model of that name, imported now."""
    if name not in model_summaries():
        raise ModelError(f"there is no model {name!r}", hint=nearest(name, model_names()))
    module = importlib.import_module(f"steplab.models.{name.replace('-', '_')}")
    found: type[PerformanceModel] = module.MODEL
    return found


def model_from_document(document: object) -> PerformanceModel:
    """The fitted model that a JSON document describes (the inverse of `to_document`)."""
    name = document.get("model") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(name, str):
        raise ModelError("this is not a saved performance model", hint="write one with `steplab fit --out`")
    return load_model_class(name).from_document(document)

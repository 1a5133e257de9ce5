"""Performance models: one file each, found by name.

A model file defines `MODEL`, its subclass of `PerformanceModel`; the file `generic_de.py` is the model `generic-de`. It
may define `OFFERED`: where the model takes part unasked (`auto`, `compare`, `report`), each with its place in the order
there; without it, in `compare` only. Files without `MODEL` hold what models share. Other distributions add models by
entry points of the group `steplab.models`. Nothing is imported until a model is asked for.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplab.core.errors import ModelError, nearest
from steplab.core.extensions import Extension, entry_points, extensions, parsed
from steplab.core.parsing import parsing

if TYPE_CHECKING:
    from steplab.models.base import PerformanceModel

GROUP = "steplab.models"
PLACES = ("auto", "compare", "report")


@dataclass(frozen=True)
class Declared:
    """What a model's file says of it, read without importing it."""

    summary: str
    offered: Mapping[str, int]


def _assigned(tree: ast.Module, name: str) -> ast.expr | None:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return node.value
    return None


def _declared(tree: ast.Module, name: str) -> Declared:
    summary = (ast.get_docstring(tree) or name).partition("\n")[0]
    offered = _assigned(tree, "OFFERED")
    if offered is None:
        return Declared(summary, {"compare": 0})
    with parsing("OFFERED is not an object of names and numbers", f"model {name!r}", ModelError):
        places = {str(place): int(order) for place, order in ast.literal_eval(offered).items()}
    if not set(places) <= set(PLACES):
        raise ModelError(f"OFFERED names {min(set(places) - set(PLACES))!r}", where=f"model {name!r}")
    return Declared(summary, places)


@cache
def _builtin() -> Mapping[str, Declared]:
    models = {}
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if _assigned(tree, "MODEL") is not None:
            name = path.stem.replace("_", "-")
            models[name] = _declared(tree, name)
    return models


def model_extensions() -> Mapping[str, Extension]:
    """The models that other distributions add, by name, with what is wrong with them."""
    return extensions("model", tuple(_builtin()))


@cache
def _models() -> Mapping[str, Declared]:
    """The models of steplab, then those of other distributions that can be used."""
    others = {}
    for name, extension in model_extensions().items():
        if not extension.problem:
            others[name] = _declared(parsed(extension.usable_file()), name)
    return {**_builtin(), **others}


def model_summaries() -> Mapping[str, str]:
    """Every model's name and the first line of its file's docstring, read without importing it."""
    return {name: declared.summary for name, declared in _models().items()}


def model_names() -> list[str]:
    """The names of all models.

    >>> "generic" in model_names()
    True
    """
    return list(_models())


def offered(place: str) -> tuple[str, ...]:
    """The models that take part unasked in `auto`, `compare` or `report`, in their order there.

    >>> "generic-de" in offered("compare")
    False
    """
    places = {name: declared.offered[place] for name, declared in _models().items() if place in declared.offered}
    return tuple(sorted(places, key=lambda name: places[name]))


def load_model_class(name: str) -> type[PerformanceModel]:
    """The class of the model of that name, imported now."""
    if name in _builtin():
        model: type[PerformanceModel] = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").MODEL
        return model
    extension = model_extensions().get(name)
    if extension is None:
        raise ModelError(f"there is no model {name!r}", hint=nearest(name, model_names()))
    if extension.problem:
        raise ModelError(extension.problem)
    return _imported(name, extension.distribution)


def _imported(name: str, distribution: str) -> type[PerformanceModel]:
    """The class that an entry point offers; whatever goes wrong in another's package is one sentence."""
    where = f"model {name!r} of {distribution}"
    with parsing("it cannot be imported", where, ModelError):
        offer = entry_points(GROUP)[name].load()
        model = getattr(offer, "MODEL", offer)
        base = importlib.import_module(f"{__name__}.base").PerformanceModel
    if not (isinstance(model, type) and issubclass(model, base)):
        raise ModelError("it is no subclass of steplab.models.base.PerformanceModel", where=where)
    checked: type[PerformanceModel] = model
    if checked.name() != name:
        hint = f"let the entry point name the module that defines the class, {checked.__module__}"
        raise ModelError(f"its class calls itself {checked.name()!r}", where=where, hint=hint)
    return checked


def model_name(module: str, qualname: str) -> str:
    """The name of a model class: that of its file in this folder, or of the entry point that offers it.

    >>> model_name("steplab.models.generic_de", "GenericDE")
    'generic-de'
    """
    package, _, stem = module.rpartition(".")
    if package != __name__:
        for point in entry_points(GROUP).values():
            if point.module == module and point.attr in ("", qualname):
                return point.name
    return stem.replace("_", "-")


def provider(name: str) -> dict[str, str] | None:
    """The distribution that provides a model, for its saved document; none for those of steplab itself."""
    point = None if name in _builtin() else entry_points(GROUP).get(name)
    if point is None or point.dist is None:
        return None
    return {"distribution": point.dist.name, "version": point.dist.version}


def saved_model_class(name: object, saved_by: object) -> type[PerformanceModel]:
    """The class of a saved model; only a model of steplab or an installed entry point of that name is ever imported."""
    if not isinstance(name, str):
        raise ModelError("this is not a saved performance model", hint="write one with `steplab fit --out`")
    package = saved_by.get("distribution") if isinstance(saved_by, dict) else None
    if isinstance(package, str):
        _require_provided(name, package)
    return load_model_class(name)


def _require_provided(name: str, package: str) -> None:
    """Say which package is missing, or which other one has taken its model's name."""
    here = provider(name)
    if here is None:
        what = f"model {name!r} comes from the package {package!r}, which is not installed here or no longer offers it"
        raise ModelError(what, hint=f"install {package!r} into the environment of steplab")
    if _canonical(here["distribution"]) != _canonical(package):
        what = f"model {name!r} was saved by the package {package!r}, but here {here['distribution']!r} offers it"
        raise ModelError(what, hint=f"install {package!r} instead")


def _canonical(distribution: str) -> str:
    """A distribution's name as installers compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def model_from_document(document: object) -> PerformanceModel:
    """The fitted model that a JSON document describes (the inverse of `to_document`)."""
    content: dict[str, Any] = document if isinstance(document, dict) else {}
    return saved_model_class(content.get("model"), content.get("provider")).from_document(content)

"""What a shell offers when a value is half typed: names of models, frameworks, networks, tables, sections.

Whoever presses Tab waits for it, so nothing is imported but what lists names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

TABLES = ("trials", "iterations", "layers", "epochs", "trace")


def section_names() -> tuple[str, ...]:
    """The sections of `steplab analyze`, read from their file without importing it."""
    tree = ast.parse(Path(__file__).with_name("_sections.py").read_text(encoding="utf-8"))
    shown = next(
        node.value for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "SECTIONS"
    )  # fmt: skip
    assert isinstance(shown, ast.Dict)
    return tuple(str(key.value) for key in shown.keys if isinstance(key, ast.Constant))


def complete_sections(incomplete: str) -> list[str]:
    """Sections, several with commas."""
    return _last(incomplete, section_names())


def complete_tables(incomplete: str) -> list[str]:
    """The tables of a study."""
    return _begins(incomplete, TABLES)


def complete_models(incomplete: str) -> list[str]:
    """Performance models, several with commas."""
    from steplab.api.modelling.model_names import model_names

    return _last(incomplete, model_names())


def complete_frameworks(incomplete: str) -> list[str]:
    """Frameworks."""
    from steplab.core.catalogue import framework_names

    return _begins(incomplete, framework_names())


def complete_networks(incomplete: str) -> list[str]:
    """Networks."""
    from steplab.core.catalogue import network_names

    return _begins(incomplete, network_names())


def complete_kinds(incomplete: str) -> list[str]:
    """Kinds of trials."""
    from steplab.core.trial import kind_names

    return _begins(incomplete, kind_names())


def _begins(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _last(incomplete: str, names: Iterable[str]) -> list[str]:
    """A list with commas, its last name completed; none twice.

    >>> _last("linear,hy", ["linear", "hybrid"])
    ['linear,hybrid']
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _begins(last, names) if name not in before.split(",")]

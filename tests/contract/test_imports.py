"""Imports form no cycle, lazy ones included; a lazy import of our own code has a reason that is written down here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from steplab.models import model_names

SOURCE = Path(__file__).parents[2] / "src"
OURS = ("steplab", "steplab_worker")
# A command imports what it needs when it is called, so that --help and the others stay quick.
LAZY_ON_PRINCIPLE = ("steplab/cli/", "steplab/api/")
# Elsewhere: who imports lazily, and why. A cycle is no reason; the first test would find it.
REASONS = {
    "steplab/__main__.py": "an interrupt is answered before anything large is imported",
    "steplab/analysis/scaling/imbalance_regression.py": "SciPy's linear algebra is slow to load; few studies need it",
    "steplab/store/brief.py": "counting trials needs no NumPy",
    "steplab/store/cache.py": "counting trials needs no PyArrow",
    "steplab/store/source.py": "a plain table needs no record store",
    "steplab_worker/adapters/torch/__init__.py": "FSDP2 takes time to load, and not every PyTorch has it",
    "steplab_worker/rank.py": "NumPy comes after the limits of threads",
}


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """What each module imports, lazily or not; imports for the type checker alone are left out."""
    graph = grimp.build_graph(*OURS, cache_dir=None, exclude_type_checking_imports=True)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_what_models_share_knows_no_model(imports: dict[str, set[str]]) -> None:
    models = {f"steplab.models.{name.replace('-', '_')}" for name in model_names()}
    shared = {module for module in imports if module.startswith("steplab.models") and module not in models}
    assert {module: imports[module] & models for module in shared if imports[module] & models} == {}


def test_no_import_is_needed_to_be_lazy_to_avoid_a_cycle(imports: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"a cycle of imports: {' → '.join(error.args[1])}") from error


def lazy_imports(path: Path) -> Iterator[str]:
    """What functions of a file import of our own code."""
    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    for node in (node for function in functions for node in ast.walk(function)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (name for name in names if name.partition(".")[0] in OURS)


def test_every_lazy_import_of_our_own_code_has_a_reason() -> None:
    files = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    lazy = {name for name, path in files.items() if any(lazy_imports(path))}
    asked = {name for name in lazy if not name.startswith(LAZY_ON_PRINCIPLE)}
    assert asked - REASONS.keys() == set(), "import at the top of the file, or write down why not"
    assert REASONS.keys() - asked == set(), "these import lazily no more: take them off the list"

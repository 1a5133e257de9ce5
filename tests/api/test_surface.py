"""What `import steplab` offers: all of it, lazily, typed, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import steplab

HEAVY = ("numpy", "pandas", "pyarrow", "scipy", "sklearn", "plotly", "pydantic", "typer", "rich")


def test_every_offered_name_is_there_and_documented() -> None:
    for name in steplab.__all__:
        offered = getattr(steplab, name)
        assert name == "__version__" or (offered.__doc__ or "").strip(), name


def test_the_names_of_all_and_of_type_checkers_are_the_same() -> None:
    tree = ast.parse(Path(steplab.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed | {"__version__"} == set(steplab.__all__)


def test_a_star_import_gives_all_names() -> None:
    names: dict[str, object] = {}
    exec("from steplab import *", names)
    assert set(steplab.__all__) <= set(names)
    assert names["open"] is steplab.open


def test_dir_lists_what_is_offered() -> None:
    assert set(steplab.__all__) <= set(dir(steplab))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'steplab' has no attribute 'runn'"):
        _ = steplab.runn  # type: ignore[attr-defined]


def test_importing_steplab_imports_no_library() -> None:
    code = f"import sys, steplab; dir(steplab); print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_says_that_it_is_typed() -> None:
    assert Path(steplab.__file__).with_name("py.typed").exists()

"""The order in which the suite is run knows its files: a name that is gone would be a rule for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import work_units

from steplab.core import catalogue

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("names", [work_units.RANKS, work_units.BY_FRAMEWORK, work_units.BY_TEST, work_units.LONG])
def test_every_file_and_test_is_there(names: tuple[str, ...]) -> None:
    tests = [name.partition("::") for name in names if not name.startswith("ranks of ")]
    assert [file for file, _, test in tests if f"def {test}" not in (ROOT / file).read_text()] == []
    frameworks = {name.removeprefix("ranks of ") for name in names if name.startswith("ranks of ")}
    assert frameworks <= set(catalogue.framework_names())


def test_each_unit_is_in_one_piece(request: pytest.FixtureRequest) -> None:
    units = [work_units.unit(item.nodeid) for item in request.session.items]
    changes = [second for first, second in zip(["", *units], units, strict=False) if first != second]
    assert len(changes) == len(set(changes))


def test_ranks_are_shared_over_files_and_long_tests_are_not_held_together() -> None:
    proofs = ("test_frameworks.py::test_a[jax-lenet5]", "test_phases.py::test_b[jax]", "test_training.py::test_c[jax]")
    assert {work_units.unit(f"tests/contract/{proof}") for proof in proofs} == {"ranks of jax"}
    assert work_units.unit("tests/contract/test_phases.py::test_what_buckets_expose[stamps0-2.0]") == "ranks of torch"
    assert work_units.unit("tests/e2e/test_faults.py::test_a") != work_units.unit("tests/e2e/test_faults.py::test_b")
    assert work_units.place("tests/e2e/test_faults.py::test_a") < work_units.place("tests/core/test_files.py::test_a")

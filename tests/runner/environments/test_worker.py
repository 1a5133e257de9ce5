"""One way to start worker code: nothing of the laboratory's packages comes along, and every end is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steplab.runner.environments import worker

# What a worker module can import, and from where.
SIGHT = """
import importlib.util, sys
from steplab_worker.helper import serve
def see(job, say):
    print("noise on standard output")
    say({"path": sys.path, "sees": [name for name in job["names"] if importlib.util.find_spec(name)]})
def main():
    serve(see)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The worker as a wheel installs it: in a folder with all of the laboratory's other packages."""
    packages = tmp_path / "site-packages"
    shutil.copytree(worker.WORKER, packages / "steplab_worker", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "of_the_laboratory.py").write_text("")
    (packages / "steplab_worker" / "sight.py").write_text(SIGHT)
    monkeypatch.setattr(worker, "WORKER", packages / "steplab_worker")
    return packages


@pytest.fixture
def add_module(installed: Path) -> Callable[[str], None]:
    """Add a helper named `deed` whose work has this body."""

    def add(body: str) -> None:
        code = (
            f"from steplab_worker.helper import serve\ndef work(job, say):\n    {body}\ndef main():\n    serve(work)\n"
        )
        (installed / "steplab_worker" / "deed.py").write_text(code)

    return add


HERE = Path(sys.executable)


def test_a_helper_sees_none_of_the_laboratorys_packages(installed: Path, tmp_path: Path) -> None:
    empty = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(empty)], check=True)
    names = ["of_the_laboratory", "steplab", "numpy", "json", "steplab_worker"]
    told = worker.answer(empty / "bin" / "python", "sight", {"names": names}, 60)
    assert told["sees"] == ["json", "steplab_worker"]
    assert not [entry for entry in told["path"] if Path(entry).is_relative_to(installed)]


def test_a_helpers_documents_come_in_order_whatever_it_prints(add_module: Callable[[str], None]) -> None:
    add_module("[(print('x' * 100_000), say({'at': job['from'] + at})) for at in range(3)]")
    documents = worker.answers(HERE, "deed", {"from": 5}, 60)
    assert [document["at"] for document in documents] == [5, 6, 7]


def test_a_helper_that_fails_leaves_its_last_word(add_module: Callable[[str], None]) -> None:
    add_module("raise ValueError('no luck')")
    with pytest.raises(worker.HelperFailed, match="ValueError: no luck"):
        worker.answer(HERE, "deed", {}, 60)


def test_a_helper_that_fills_its_error_output_is_not_stuck(add_module: Callable[[str], None]) -> None:
    add_module("import sys; sys.stderr.write('x' * 1_000_000); say({})")
    assert worker.answer(HERE, "deed", {}, 60) == {}


def test_a_helper_that_takes_too_long_is_ended(
    add_module: Callable[[str], None], no_orphans: Callable[[], None]
) -> None:
    add_module("import time; time.sleep(1000)")
    with pytest.raises(worker.HelperLate):
        worker.answer(HERE, "deed", {}, 1.0)


def test_a_helper_ends_with_the_iteration_over_its_answers(
    add_module: Callable[[str], None], no_orphans: Callable[[], None]
) -> None:
    add_module("import time; say({}); time.sleep(1000)")
    documents = worker.answers(HERE, "deed", {}, 60)
    assert next(iter(documents)) == {}
    documents.close()  # type: ignore[attr-defined]


def test_a_helper_without_an_answer_has_failed(add_module: Callable[[str], None]) -> None:
    add_module("pass")
    with pytest.raises(worker.HelperFailed, match="without a word"):
        worker.answer(HERE, "deed", {}, 60)


def test_an_interpreter_that_cannot_be_started_has_failed() -> None:
    with pytest.raises(worker.HelperFailed, match="cannot be started: No such file"):
        worker.answer(Path("/nowhere/python"), "environment", {"module": ""}, 60)


def test_variables_that_lead_to_other_packages_are_left_out() -> None:
    assert worker.variables({"PYTHONPATH": "x", "PYTHONHOME": "y", "HOME": "z"}) == {"HOME": "z"}


def test_an_environment_describes_itself() -> None:
    told = worker.answer(HERE, "environment", {"module": "psutil"}, 60)
    assert told["version"]
    assert any(line.startswith("psutil==") for line in told["lock"])
    assert json.dumps(told)

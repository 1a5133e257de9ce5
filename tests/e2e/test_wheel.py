"""The wheel, installed into a new environment, does what the checkout does; frameworks see nothing of the laboratory.

The new environment holds the wheel's own steplab. Its dependencies are those of the environment that runs the tests,
put behind it by a `.pth` file, because downloading them again would take minutes: `.pth` files of that folder, by which
the checkout is installed there, are not read, and a test makes sure of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DEPENDENCIES = Path(sysconfig.get_path("purelib"))
# Of the laboratory alone: PyTorch's environment needs none of them.
LABORATORY = ("steplab", "pandas", "duckdb", "typer", "plotly", "sklearn", "acme_beside")
# A user's own network, which writes down what its interpreter could import.
NETWORK = """
import importlib.util, json, os, sys
from torch import nn
SEEN = {"path": sys.path, "found": [name for name in %r if importlib.util.find_spec(name)]}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen-%%d.json" %% os.getpid()), "w") as file:
    json.dump(SEEN, file)
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
"""
STUDY = """
[study]
name = "wheel"
[factors]
framework = ["torch"]
network = ["module:own_network:net"]
dataset = ["mnist"]
batch_size = [8, 16, 32]
workers = [2]
[design]
replicates = 2
[measure]
warmup = 2
iterations = 10
timeout_s = 120
[data]
samples = 2000
"""
Run = Callable[..., str]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("wheel")
    done([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"], ROOT)
    (wheel,) = (folder / "dist").glob("steplab-*.whl")
    new = folder / "environment"
    done([sys.executable, "-m", "venv", "--without-pip", new], folder)
    pip = [sys.executable, "-m", "pip", "--python", new / "bin" / "python", "install", "--quiet"]
    done([*pip, "--disable-pip-version-check", "--no-index", "--no-deps", wheel], folder)
    (site,) = new.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{DEPENDENCIES}\n")
    (site / "acme_beside.py").write_text("")  # beside steplab, where a worker package found by its folder would see it
    return new


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a person works: a study and a network of their own."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "own_network.py").write_text(NETWORK % (LABORATORY,))
    (folder / "study.toml").write_text(STUDY)
    return folder


@pytest.fixture(scope="module")
def steplab(environment: Path, place: Path) -> Run:
    """Call the wheel's command; what it prints."""

    def run(*arguments: object) -> str:
        return done([environment / "bin" / "steplab", *arguments], place)

    return run


@pytest.fixture(scope="module")
def studied(steplab: Run, place: Path) -> Path:
    """The study's folder after `run`."""
    said = json.loads(steplab("run", "study.toml", "--out", "out", "--json"))
    assert (said["ok"], said["failed"]) == (6, 0)
    return place / "out"


def done(command: list[object], folder: Path) -> str:
    """What a command prints, if it ends well."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    words = [str(word) for word in command]
    ran = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, f"{' '.join(words)}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def seen(place: Path) -> list[Any]:
    """What each interpreter that imported the network could see; forgotten then."""
    documents = []
    for path in sorted(place.glob("seen-*.json")):
        documents.append(json.loads(path.read_text()))
        path.unlink()
    return documents


def expect_strangers(documents: list[Any], environment: Path) -> None:
    """None of those interpreters had a package of the laboratory's, nor a way to one."""
    assert [document["found"] for document in documents] == [[]] * len(documents)
    ways = {entry for document in documents for entry in document["path"]}
    assert not [entry for entry in ways if entry.startswith((str(environment), str(DEPENDENCIES), str(ROOT)))]


def test_the_wheel_is_what_is_imported(environment: Path, place: Path) -> None:
    code = "import steplab, steplab_worker, sys; print(steplab.__file__, steplab_worker.__file__, *sys.path)"
    said = done([environment / "bin" / "python", "-c", code], place).split()
    assert all(file.startswith(str(environment)) for file in said[:2])
    assert str(ROOT / "src") not in said


def test_doctor_knows_the_frameworks(steplab: Run) -> None:
    names = {row["name"] for row in json.loads(steplab("doctor", "--json"))["environments"]}
    assert {"torch", "synthetic"} <= names


def test_an_environment_that_is_there_is_made_by_saying_so(steplab: Run) -> None:
    (row,) = json.loads(steplab("env", "create", "torch", "--json"))["environments"]
    assert (row["name"], row["ready"]) == ("torch", True)


def test_a_user_s_network_is_inspected_without_seeing_the_laboratory(
    steplab: Run, environment: Path, place: Path
) -> None:
    seen(place)
    shape = ("--input", "1x28x28", "--modules", place, "--json")
    assert json.loads(steplab("inspect", "module:own_network:net", *shape))["parameters"] == 7850
    documents = seen(place)
    assert len(documents) == 1
    expect_strangers(documents, environment)


def test_two_ranks_train_without_seeing_the_laboratory(environment: Path, place: Path, studied: Path) -> None:
    documents = seen(place)
    assert len(documents) >= 2
    expect_strangers(documents, environment)


def test_the_study_is_analysed_modelled_and_reported(steplab: Run, studied: Path) -> None:
    assert json.loads(steplab("analyze", "out", "--json"))["groups"]
    steplab("fit", "out", "--model", "linear", "--extrinsic", "batch_size", "--out", "model.json")
    assert json.loads(steplab("predict", "model.json", "--at", "batch_size=24", "--json"))["predictions"]
    steplab("report", "out", "--out", "report.html")
    assert "</html>" in (studied.parent / "report.html").read_text()

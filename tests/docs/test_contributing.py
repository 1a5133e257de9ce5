"""CONTRIBUTING.md is true: the one file of each recipe, put into a copy of the repository, is found, used, tested."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from steplab.core.extensions import DEFINES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SECTION = re.compile(r"^## Add a (\w+)\n(.*?)(?=^## )", re.M | re.S)
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.M | re.S)
COPIED = (
    "src",
    "tests",
    "docs",
    "studies",
    "pyproject.toml",
    "mkdocs.yml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
DEMO = '[study]\nname = "demo"\n[factors]\nframework = ["synthetic"]\nworkers = [1, 2]\n[measure]\niterations = 8\n'
# Of the example's contract, what needs no framework; all of it is run where such a file really is.
QUICK = {"network": "not pytorch", "model": "", "command": "", "launcher": ""}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Recipe:
    """One section of the page: what it says of the file, the example, and what is typed."""

    kind: str
    rows: dict[str, str]
    files: dict[str, str]
    commands: list[str]

    @property
    def folder(self) -> str:
        """Where the file belongs."""
        return re.findall(r"`(src/[\w/]+)/NAME\.py`", self.rows["file"])[0]

    @property
    def example(self) -> str:
        """The path of the example's one file."""
        (path,) = (path for path in self.files if path.startswith("src/"))
        return path

    @property
    def name(self) -> str:
        """What the example is called on the command line."""
        stem = Path(self.example).stem
        return stem.replace("_", "-") if self.kind in ("model", "command") else stem


def recipes() -> dict[str, Recipe]:
    """The recipes by kind."""
    return {kind: recipe(kind, text) for kind, text in SECTION.findall(PAGE)}


def recipe(kind: str, text: str) -> Recipe:
    """A section, read."""
    fences = FENCE.findall(text)
    lines = [line for language, _, body in fences if language == "console" for line in body.splitlines()]
    return Recipe(
        kind=kind,
        rows=dict(re.findall(r"^\| (\w+) \| (.+) \|$", text, re.M)),
        files={title: body for _, title, body in fences if title},
        commands=[line.removeprefix("$ ") for line in lines],
    )


KINDS = list(recipes())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name)  # compiled files, too: they stay valid and save seconds
        else:
            shutil.copy(source, folder / name)
    return folder


@pytest.fixture
def run(copy: Path) -> Run:
    """Run a program of the environment on the copy's packages."""

    def run(*words: str, cwd: Path = copy) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        variables = {**os.environ, "PATH": path, "PYTHONPATH": str(copy / "src"), "NO_COLOR": "1"}
        return subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True, timeout=900, check=False)

    return run


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """What the recipes' commands presume: a table of times and a study."""
    folder = tmp_path / "desk"
    folder.mkdir()
    rows = [
        f"{batch},{workers},{0.001 + 1e-5 * batch / workers}" for batch, workers in product([32, 64, 128], [1, 2, 4])
    ]
    (folder / "times.csv").write_text("\n".join(["batch_size,workers,t_iter", *rows]) + "\n")
    (folder / "demo.toml").write_text(DEMO)
    return folder


def put(recipe: Recipe, copy: Path) -> None:
    """Save the example's one file."""
    (copy / recipe.example).write_text(recipe.files[recipe.example])


def test_there_is_a_recipe_for_everything_that_is_one_file() -> None:
    assert set(KINDS) == {"network", "model", "command", "framework", "launcher"}


def test_every_kind_can_come_from_another_distribution() -> None:
    groups = re.findall(r'entry-points\."steplab\.(\w+)s"', PAGE)
    assert sorted(groups) == sorted(KINDS) == sorted(DEFINES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recipe_names_a_folder_and_contracts_that_exist(kind: str) -> None:
    recipe = recipes()[kind]
    assert (ROOT / recipe.folder).is_dir()
    assert str(Path(recipe.example).parent) == recipe.folder
    contracts = re.findall(r"`(tests/[\w/]+\.py)`", recipe.rows["contract"])
    assert contracts
    assert [path for path in contracts if not (ROOT / path).is_file()] == []
    assert contracts[0] in recipe.rows["quickly"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_recipe_says_the_file_holds_is_in_its_example(kind: str) -> None:
    recipe = recipes()[kind]
    assert [name for name in DEFINES[kind] if f"`{name}" not in recipe.rows["holds"]] == []
    assert [name for name in DEFINES[kind] if not re.search(rf"\b{name}\b", recipe.files[recipe.example])] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_is_found_and_used_by_its_one_file(kind: str, copy: Path, run: Run, desk: Path) -> None:
    recipe = recipes()[kind]
    for path, text in recipe.files.items():
        if path != recipe.example:
            (desk / path).write_text(text)
    if any("runs/demo" in command for command in recipe.commands):
        run("steplab", "run", "demo.toml", cwd=desk)
    before = run("bash", "-c", recipe.commands[0], cwd=desk)
    assert before.returncode != 0, "it is there without its file"
    if recipe.commands[0].startswith("steplab"):
        assert "Traceback" not in before.stderr
    put(recipe, copy)
    for command in recipe.commands:
        done = run("bash", "-c", command, cwd=desk)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_has_no_finding_of_the_linter(kind: str, copy: Path, run: Run) -> None:
    recipe = recipes()[kind]
    put(recipe, copy)
    for check in (["check"], ["format", "--check"]):
        done = run("ruff", *check, "--no-cache", recipe.example)
        assert done.returncode == 0, done.stdout


def test_the_examples_keep_to_the_floors_of_the_house(copy: Path, run: Run) -> None:
    for recipe in recipes().values():
        put(recipe, copy)
    done = run("lint-imports", "--no-cache")
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in QUICK])
def test_the_contract_covers_the_example_at_once(kind: str, copy: Path, run: Run) -> None:
    recipe = recipes()[kind]
    put(recipe, copy)
    words = re.findall(r"`pytest (-q .+?) -k NAME`", recipe.rows["quickly"])[0].split()
    chosen = " and ".join(filter(None, [recipe.name, QUICK[kind]]))
    done = run("pytest", *words, "-p", "no:cacheprovider", "-k", chosen)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"\d+ passed", done.stdout)


def test_the_contract_covers_a_framework_that_has_an_environment(copy: Path, run: Run) -> None:
    recipe = recipes()["framework"]
    put(recipe, copy)
    file = copy / recipe.example
    file.write_text(file.read_text().replace('"pins": []', '"pins": ["metronome"]'))
    for contract in re.findall(r"`(tests/[\w/]+\.py)`", recipe.rows["contract"])[:1]:
        done = run("pytest", "-q", contract, "-p", "no:cacheprovider", "--collect-only", "-k", recipe.name)
        assert f"[{recipe.name}" in done.stdout, done.stdout[-2000:]

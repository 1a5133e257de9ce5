"""Environments with another version of a framework or with further packages, made from packages on disk alone."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.core.catalogue import framework
from steplab.core.errors import InputError
from steplab.runner.environments.variants import Variant


def wheel(shelf: Path, name: str, version: str, module: str = "", needs: str = "") -> None:
    """A package that holds one module, which tells its version."""
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(shelf / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{module or name}.py", f"__version__ = {version!r}\n")
        required = f"Requires-Dist: {needs}\n" if needs else ""
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """A home of its own, and no packages but those on a shelf: two versions of a `torch` that computes nothing."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    wheel(shelf, "greedy", "1.0", needs="torch<7.7")
    for name, version, module in (
        ("torch", "7.6", ""), ("torch", "7.7", ""), ("numpy", "2.0", ""), ("pillow", "11.0", "PIL"),
        ("nibabel", "5.3", ""), ("einops", "0.8", ""),
    ):  # fmt: skip
        wheel(shelf, name, version, module)
    home = str(tmp_path / "home")
    return {"STEPLAB_HOME": home, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf), "PIP_CONFIG_FILE": "/dev/null"}


def test_another_version_with_a_package_is_an_environment_of_its_own(
    variables: dict[str, str], steplab: Callable[..., Any], on_terminal: Callable[..., Any]
) -> None:
    command = ("env", "create", "torch", "--version", "7.7", "--with", "einops==0.8")
    screen = on_terminal(*command, env=variables)
    assert screen.code == 0, screen.text
    assert screen.widest <= 80
    assert re.search(r"torch-7\.7-einops-0\.8 +torch +yes +7\.7", screen.text)
    assert any("installing" in line and re.search(r"\d:\d\d:\d\d", line) for line in screen.lines)  # a sign of life
    listed = steplab("env", "list", "--json", env=variables).json["environments"]
    (row,) = [one for one in listed if one["version"] == "7.7"]
    assert (row["name"], row["framework"]) == ("torch-7.7-einops-0.8", "torch")
    assert {one["name"]: one["ready"] for one in listed if one["framework"] == "torch"} == {
        "torch": False,
        "torch-7.7-einops-0.8": True,
    }
    note = Path(variables["STEPLAB_HOME"], "envs", row["name"], "steplab.json").read_text()
    assert "einops==0.8" in note


def test_a_version_that_is_not_there_is_one_sentence_with_those_that_are(
    variables: dict[str, str], steplab: Callable[..., Any]
) -> None:
    made = steplab("env", "create", "torch", "--version", "9.9", env=variables)
    assert made.code == 1
    assert "torch-9.9: cannot be installed: there is no torch==9.9; there are 7.6, 7.7" in " ".join(made.err.split())
    assert not Path(variables["STEPLAB_HOME"], "envs", "torch-9.9").exists()


def test_a_package_that_needs_another_version_of_the_framework_does_not_replace_it(
    variables: dict[str, str], steplab: Callable[..., Any]
) -> None:
    refused = steplab("env", "create", "torch", "--version", "7.7", "--with", "greedy", env=variables)
    assert refused.code == 1
    assert "Cannot install greedy" in " ".join(refused.err.split())
    assert not Path(variables["STEPLAB_HOME"], "envs", "torch-7.7-greedy").exists()


def test_a_study_is_told_how_to_make_the_version_that_it_names(
    variables: dict[str, str], steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    ran = steplab("run", study_file(framework=["torch"], environment=["torch-7.6", "torch-7.7"]), env=variables)
    assert ran.code == 1
    assert "make it with `steplab env create torch --version 7.6`" in ran.err


def test_the_pins_of_one_version_change_together() -> None:
    assert Variant(framework("tensorflow"), "2.20.0").installs[0][0] == "tensorflow-cpu==2.20.0"
    assert Variant(framework("tensorflow"), "2.20.0").installs[1] == ("--no-deps", "tf_keras==2.20.0")
    assert Variant(framework("chainer"), "7.8.0").installs[1][-1] == "chainer==7.8.0"
    assert Variant(framework("torch")).installs == framework("torch").installs


@pytest.mark.parametrize("package", ["--index-url=x", "../x.whl", "git+https://x", "a b", ""])
def test_what_pip_would_take_for_something_else_is_no_package(package: str) -> None:
    with pytest.raises(InputError, match="is not a package"):
        Variant(framework("torch"), packages=(package,))


def test_a_framework_keeps_its_own_environment(variables: dict[str, str], steplab: Callable[..., Any]) -> None:
    made = steplab("env", "create", "torch", "--version", "7.7", "--name", "torch", env=variables)
    assert (made.code, "choose another with --name" in made.err) == (1, True)
    both = steplab("env", "create", "torch", "jax", "--version", "7.7", env=variables)
    assert (both.code, "go with one framework" in both.err) == (1, True)

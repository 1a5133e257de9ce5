"""A distribution of somebody else's, installed beside steplab: one file for each kind of extension."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from steplab.core.home import home

ACME = Path(__file__).parent / "acme"
PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def shown(page: Path = PAGE) -> dict[str, str]:
    """The files that a page shows, by their titles."""
    return dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page.read_text(), re.M | re.S))


def shown_entry_points() -> str:
    """Those of the package on the page, as an installer writes them."""
    groups = tomllib.loads(shown()["pyproject.toml"])["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in points.items()) for group, points in groups.items()]
    return "".join(lines)


def install(site: Path, name: str, entry_points: str) -> None:
    """Write a distribution's metadata as an installer does."""
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, torch_python: Path) -> Mapping[str, str]:
    """The distribution `acme` on the path, and a home with its framework's environment: the variables for both.

    The framework needs NumPy alone, so PyTorch's interpreter is registered for it, as a person would do with their own.
    """
    site, own = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("home")
    shutil.copytree(ACME, site / "acme", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "acme" / "__init__.py").touch()
    (site / "acme" / "saturating.py").write_text(shown(PAGE.with_name("models.md"))["saturating.py"])
    install(site, "acme", shown_entry_points())
    (own / "envs").mkdir()
    (own / "envs" / "torch").symlink_to(home() / "envs" / "torch")
    return {"PYTHONPATH": str(site), "STEPLAB_HOME": str(own)}


@pytest.fixture
def extended(steplab: Callable[..., Any], installed: Mapping[str, str], torch_python: Path) -> Callable[..., Any]:
    """Run `steplab` where the distribution is installed."""
    if not (Path(installed["STEPLAB_HOME"]) / "envs" / "plain").exists():
        assert steplab("env", "add", "plain", "--python", torch_python, env=installed).code == 0

    def run(*arguments: object, **more: Any) -> Any:
        return steplab(*arguments, env=installed, **more)

    return run


@pytest.fixture
def variables(installed: Mapping[str, str]) -> dict[str, str]:
    """All variables of a process that sees the distribution."""
    return {**os.environ, **installed}

"""A distribution of somebody else's, installed beside steplab: one file for each kind of extension."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

ACME = Path(__file__).parent / "acme"
ENTRY_POINTS = """\
[steplab.frameworks]
plain = acme.plain
[steplab.networks]
bottleneck = acme.bottleneck
[steplab.commands]
slowest = acme.slowest
"""


def install(site: Path, name: str, entry_points: str) -> None:
    """Write a distribution's metadata as an installer does."""
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages with the distribution `acme` in it."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ACME, folder / "acme", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "acme" / "__init__.py").write_text("raise SystemExit('nobody imports the package around a framework')\n")
    install(folder, "acme", ENTRY_POINTS)
    return folder


@pytest.fixture(scope="session")
def installed(site: Path) -> Mapping[str, str]:
    """The environment variables with which steplab finds it."""
    return {"PYTHONPATH": str(site)}

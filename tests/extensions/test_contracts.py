"""An extension keeps to the contract of its kind: the same tests that our own files pass, run where it is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The tests of each kind, and how many of them look at an extension of that name, at least.
CONTRACTS = {
    "bottleneck": (["contract/test_networks.py"], 9),
    "plain": (["contract/test_frameworks.py", "contract/test_phases.py", "contract/test_doors.py"], 15),
    "saturating": (["contract/test_models.py", "contract/test_scikit_learn.py"], 70),
    "niced": (["contract/test_launchers.py"], 13),
    "slowest": (["docs/test_docs.py"], 1),
}


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.usefixtures("extended")
def test_an_extension_keeps_to_the_contract_of_its_kind(name: str, variables: dict[str, str], tmp_path: Path) -> None:
    files, fewest = CONTRACTS[name]
    paths = [str(ROOT / "tests" / file) for file in files]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "its")]
    ran = subprocess.run(
        [*command, *paths, "-k", name],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed, ran.stdout[-2000:]
    assert int(passed[1]) >= fewest, ran.stdout[-2000:]
    assert "failed" not in ran.stdout

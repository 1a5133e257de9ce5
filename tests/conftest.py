"""What tests of several folders share: the real PyTorch environment, and scripts that run inside it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.core.errors import EnvironmentFault
from steplab.runner.environments import find

ROOT = Path(__file__).parents[1]
InTorch = Callable[[str, Any], Any]


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """The interpreter of the PyTorch environment; without it the tests fail, they are not left out."""
    named = os.environ.get("STEPLAB_TEST_TORCH")
    if named:
        return Path(named)
    try:
        return find("torch").python
    except EnvironmentFault as fault:
        pytest.fail(f"these tests need the PyTorch environment: {fault}", pytrace=False)


@pytest.fixture(scope="session")
def in_torch(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> InTorch:
    """Run `tests/torch_scripts/NAME.py` on a job inside the PyTorch environment; its answer."""

    def run(name: str, job: Any) -> Any:
        answer = tmp_path_factory.mktemp(name) / "answer.json"
        script = Path(__file__).parent / "torch_scripts" / f"{name}.py"
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [str(torch_python), str(script), str(answer)], input=json.dumps(job), text=True, capture_output=True,
            env=variables, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(answer.read_text())

    return run

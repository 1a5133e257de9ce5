"""Inferences inside of frameworks' own environments, so that their outputs can be compared."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steplab.core.errors import EnvironmentFault
from steplab.runner.environments.registry import find

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/worker/adapters/outputs.py"
Outputs = dict[str, np.ndarray]


def environment(framework: str) -> Path:
    """The interpreter of a framework's environment; without it the tests fail, they are not left out."""
    try:
        return find(framework).python
    except EnvironmentFault as fault:
        pytest.fail(f"these tests need the environment: {fault}", pytrace=False)


def in_environment(framework: str, *arguments: str, jobs: str = "") -> str:
    """Run an interpreter with these arguments; what it printed."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(environment(framework)), *arguments]
    done = subprocess.run(command, input=jobs, text=True, capture_output=True, env=variables, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def outputs(frameworks: tuple[str, ...], jobs: Mapping[str, Mapping[str, Any]], folder: Path) -> dict[str, Outputs]:
    """The outputs of all jobs in each framework."""
    answers = {}
    text = json.dumps({name: {"seed": 1, **job} for name, job in jobs.items()})
    for framework in frameworks:
        path = folder / f"{framework}.npz"
        in_environment(framework, str(SCRIPT), framework, str(path), jobs=text)
        with np.load(path) as given:
            answers[framework] = dict(given)
    return answers


def assert_alike(given: np.ndarray, expected: np.ndarray) -> None:
    """The same outputs but for rounding, and not the same for all samples."""
    assert given.shape == expected.shape
    assert expected.std(0).max() > 1e-7 or len(expected) == 1, "all samples give the same: nothing is compared"
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-5)

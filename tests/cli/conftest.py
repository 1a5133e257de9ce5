"""Commands called in the process of the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def steplab(in_process: Callable[..., Any]) -> Callable[..., Any]:
    """Commands; what a program does with its streams, signals and surroundings has tests that start one."""
    return in_process

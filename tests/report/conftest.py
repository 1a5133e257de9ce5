"""Commands of these tests are called in their process: what is looked at is the page that they write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def steplab(in_process: Callable[..., Any]) -> Callable[..., Any]:
    """Call a command."""
    return in_process

"""Compilations of a trial in PyTorch: seconds, and reasons of those that were not the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_another_batch_size_is_compiled_once_more_and_another_trial_begins_anew(in_torch: Callable[..., Any]) -> None:
    changing, steady = in_torch("compiled", [[3, 3, 5, 5, 7], [3, 3]])
    (reason,) = changing["again"]  # from the second size on any size will do
    assert "size mismatch" in reason and "expected 3, actual 5" in reason
    assert changing["seconds"] > 0 and steady["seconds"] > 0
    assert steady["again"] == []

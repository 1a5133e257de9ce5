"""Kinds of trials, as a rank runs them: one file each, found by name.

A kind's file holds `run(job, session, ask, rank)`, which runs one trial as the laboratory directs it and gives its raw
times. What it is told, and what is made of the times, is in the laboratory's file of the same name.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, List


def names() -> List[str]:
    """All kinds, by name; nothing is imported."""
    files = os.listdir(os.path.dirname(os.path.abspath(__file__)))
    return sorted(file[:-3] for file in files if file.endswith(".py") and not file.startswith("_"))


def module(name: str) -> Any:
    """The kind's file as a module."""
    return importlib.import_module("%s.%s" % (__name__, name))

"""Ways to start the members of a group, one file each, found by its name.

A launcher's file defines `LAUNCHER`, a class that keeps to `steplab.runner.ranks.launching.Launcher`. Files whose name
begins with an underscore are none. `tests/contract/test_launchers.py` runs over all of them.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from steplab.core.errors import InputError, nearest
from steplab.runner.ranks.launching import Launcher

LOCAL = "local"  # starts each member by itself on this host


def launcher_names() -> list[str]:
    """All launchers, by name; nothing is imported.

    >>> launcher_names()
    ['local', 'mpiexec']
    """
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))


def load_launcher(name: str) -> type[Launcher]:
    """The launcher of that name."""
    if name not in launcher_names():
        raise InputError(f"there is no launcher {name!r}", hint=nearest(name, launcher_names()))
    launcher: type[Launcher] = importlib.import_module(f"{__name__}.{name}").LAUNCHER
    return launcher

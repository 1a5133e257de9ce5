"""Ways to start the members of a group, one file each, found by its name.

A launcher's file defines `LAUNCHER`, a class that keeps to `steplab.runner.ranks.launching.Launcher`. Files whose name
begins with an underscore are none. Other distributions add launchers by the entry points `steplab.launchers`.
`tests/contract/test_launchers.py` runs over all of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from steplab.core.errors import InputError, nearest
from steplab.core.extensions import Extension, entry_points, extensions
from steplab.core.parsing import parsing
from steplab.runner.ranks.launching import Launcher

LOCAL = "local"  # starts each member by itself on this host


@cache
def _files() -> Mapping[str, Path]:
    """Our own launchers and their files."""
    return {path.stem: path for path in Path(__file__).parent.glob("[!_]*.py")}


def launcher_extensions() -> Mapping[str, Extension]:
    """The launchers that other distributions add, by name, with what is wrong with them."""
    return extensions("launcher", tuple(_files()))


def launcher_names() -> list[str]:
    """All launchers that can be used, by name; nothing is imported.

    >>> "local" in launcher_names()
    True
    """
    return sorted([*_files(), *(name for name, extension in launcher_extensions().items() if not extension.problem)])


def load_launcher(name: str) -> type[Launcher]:
    """The launcher of that name."""
    if name in _files():
        own: type[Launcher] = importlib.import_module(f"{__name__}.{name}").LAUNCHER
        return own
    if name not in launcher_extensions():
        raise InputError(f"there is no launcher {name!r}", hint=nearest(name, launcher_names()))
    with parsing("cannot be used as a launcher", str(launcher_extensions()[name].usable_file())):
        loaded = entry_points("steplab.launchers")[name].load()
        launcher: type[Launcher] = getattr(loaded, "LAUNCHER", loaded)
        return launcher

"""The reports behind this project, run again: what each claimed, what our records say, and whether that agrees.

One file in `reproductions/` for each, found by its name: `ssgd_frameworks.py` is the source `ssgd-frameworks`. It
defines `SOURCE`: its study files, how their records become small tables, the tables of its page, and its questions.
Everything here gets tables and returns objects; `steplab.api.reproduction` reads and writes files.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from steplab.core.errors import InputError, nearest

if TYPE_CHECKING:
    from steplab.sources.source import Source


def source_names() -> list[str]:
    """The sources that can be run again, by name; nothing is imported.

    >>> source_names()[:2]
    ['alexnet-resnet18-roofline', 'generic-model']
    """
    return sorted(path.stem.replace("_", "-") for path in (Path(__file__).parent / "reproductions").glob("[!_]*.py"))


def load_source(name: str) -> Source:
    """The source of that name, imported now."""
    if name not in source_names():
        raise InputError(f"there is no source {name!r}", hint=nearest(name, source_names()))
    source: Source = importlib.import_module(f"{__name__}.reproductions.{name.replace('-', '_')}").SOURCE
    return source

"""Kinds of trials: one file each, found by name; the ranks' side of each is the file of that name in `steplab_worker`.

A kind's file defines `KIND`, its subclass of `TrialKind`.
"""

from __future__ import annotations

import importlib
from functools import cache

from steplab.kinds.base import TrialKind
from steplab_worker.kinds import names


@cache
def named(name: str) -> type[TrialKind]:
    """The kind of that name.

    >>> named("infer").learns
    False
    """
    kind: type[TrialKind] = importlib.import_module(f"{__name__}.{name}").KIND
    return kind


def every() -> list[type[TrialKind]]:
    """All kinds, by name.

    >>> [kind.name for kind in every()]
    ['exchange', 'infer', 'step', 'train']
    """
    return [named(name) for name in names()]

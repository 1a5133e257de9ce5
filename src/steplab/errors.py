"""The errors that steplab raises: each is one sentence for a person; `SteplabError` catches them all.

An `InputError` has three parts: `what` is wrong, `where`, and a `hint` on what to do instead. `steplab.core.errors`
draws the tree.
"""

from __future__ import annotations

from steplab.core.errors import (
    EnvironmentFault,
    InputError,
    ModelError,
    NotEnoughData,
    RecordError,
    SteplabError,
    StoreError,
    StudyError,
    TableError,
)

__all__ = [
    "EnvironmentFault",
    "InputError",
    "ModelError",
    "NotEnoughData",
    "RecordError",
    "SteplabError",
    "StoreError",
    "StudyError",
    "TableError",
]

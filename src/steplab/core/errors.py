"""What can go wrong, as one tree; the command line turns each into one sentence and exit code 1.

SteplabError
├── InputError            something a person wrote or named is wrong: what, where, what to do
│   ├── StudyError        a study file
│   ├── RecordError       a record or a study folder
│   ├── TableError        a table: CSV, Parquet, columns
│   └── ModelError        a saved performance model, or what was asked of it; a ValueError, too
│       ├── NotEnoughData too few rows for what was asked
│       ├── NotFitted     (models.refusals) scikit-learn's NotFittedError, too
│       └── WrongKind     (models.refusals) a TypeError, too
├── EnvironmentFault      a framework's environment is missing or broken
└── StoreError            records cannot be written (disk full, no permission)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 1500  # characters of a part of a sentence


class SteplabError(Exception):
    """Anything steplab reports to a person instead of a traceback."""


class InputError(SteplabError):
    """A mistake in what a person wrote: what is wrong, where, and what to do instead."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = map(_short, (what, where, hint))
        told = ": ".join(part for part in (self.where, self.what) if part)
        super().__init__(told + (f"; {self.hint}" if hint else ""))


def _short(text: str) -> str:
    """A text that is still a part of a sentence, whatever a file or a person put into it."""
    line = " ".join(text.splitlines())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


class StudyError(InputError):
    """A study file is wrong."""


class RecordError(InputError):
    """A record or a study folder cannot be read."""


class TableError(InputError):
    """A table, or a column of it, is not what was asked for."""


class ModelError(InputError, ValueError):
    """A saved performance model cannot be read, or cannot answer what was asked; to scikit-learn, a bad value."""


class NotEnoughData(ModelError):
    """There are too few rows for the model that was asked for."""


class EnvironmentFault(SteplabError):
    """A framework's environment is missing or does not work."""


class StoreError(SteplabError):
    """A record could not be written."""


def allowed(names: Iterable[object]) -> str:
    """The tail of an error message that lists what would have been right.

    >>> allowed(["sgd", "adam"])
    "allowed: 'sgd', 'adam'"
    """
    return "allowed: " + ", ".join(repr(name) for name in names)


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint with the nearest right name, then all of them.

    >>> nearest("batchsize", ["batch_size", "workers"])
    "did you mean 'batch_size'? allowed: 'batch_size', 'workers'"
    """
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return (f"did you mean {close[0]!r}? " if close else "") + allowed(names)

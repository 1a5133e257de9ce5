"""Refusals that scikit-learn knows by its own exceptions and steplab by its own: both may catch them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import NotFittedError

from steplab.core.errors import ModelError, SteplabError, allowed

Possible = Mapping[str, range | tuple[str, ...]]  # what options may be: whole numbers, or texts


class NotFitted(ModelError, NotFittedError):  # type: ignore[misc]  # scikit-learn ships no types
    """The model has not been fitted."""


class WrongKind(ModelError, TypeError):
    """What was given is of a kind that no model takes."""


@contextmanager
def refusals() -> Iterator[None]:
    """What scikit-learn refuses inside, refused in one sentence as a ModelError."""
    try:
        yield
    except SteplabError:
        raise
    except TypeError as error:
        raise WrongKind(str(error)) from error
    except ValueError as error:
        raise ModelError(str(error)) from error


def expect_possible(model: object, options: Possible) -> None:
    """Say so if an option is none of those that it may be."""
    for name, possible in options.items():
        value = getattr(model, name)
        if isinstance(possible, range):
            # Of anything but a whole number a range would try each of its own.
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            fits, hint = (
                whole and int(value) in possible,
                f"allowed: whole numbers from {possible[0]} to {possible[-1]}",
            )
        else:
            fits, hint = value in possible, allowed(possible)
        if not fits:
            raise ModelError(f"{value!r} is not possible", where=f"option {name}", hint=hint)

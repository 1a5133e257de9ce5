"""Refusals that scikit-learn knows by its own exceptions and steplab by its own: both may catch them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.exceptions import NotFittedError

from steplab.core.errors import ModelError, SteplabError


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

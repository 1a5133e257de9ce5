"""One thread for linear algebra on small matrices, where several only wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import scipy.linalg  # noqa: F401 - brings a BLAS of its own, which must be there when the libraries are looked for
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@cache
def _controller() -> Any:
    # Looking for the libraries takes longer than a fit: once is enough.
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Within it, BLAS keeps to one thread."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited


def on_one_thread(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function in which BLAS keeps to one thread."""

    @wraps(function)
    def limited(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        with one_thread():
            return function(*arguments, **named)

    return limited

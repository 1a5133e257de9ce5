"""One thread for linear algebra on small matrices, where several only wait for each other."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


@cache
def _controller() -> Any:
    # Looking for the libraries takes longer than a fit: once is enough.
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Within it, BLAS keeps to one thread."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited

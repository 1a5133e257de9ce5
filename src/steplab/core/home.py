"""Where steplab keeps what can be made again: framework environments and generated data."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The folder named by STEPLAB_HOME, or `steplab` in the user's cache folder."""
    named = os.environ.get("STEPLAB_HOME")
    if named:
        return Path(named).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "steplab"

"""Where steplab keeps what can be made again (framework environments, generated data), and a user's own settings."""

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


def profile_file() -> Path:
    """The user's settings of executors: what STEPLAB_PROFILE names, or `steplab/profile.toml` among the user's own."""
    named = os.environ.get("STEPLAB_PROFILE")
    if named:
        return Path(named).expanduser().absolute()
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "steplab" / "profile.toml"

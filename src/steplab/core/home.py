"""Where steplab keeps what can be made again (framework environments, generated data), and a user's own settings."""

from __future__ import annotations

import os
from pathlib import Path

from steplab.core.files import expanded


def home() -> Path:
    """The folder named by STEPLAB_HOME, or `steplab` in the user's cache folder."""
    named = os.environ.get("STEPLAB_HOME")
    if named:
        return expanded(named).absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else _users() / ".cache") / "steplab"


def profile_file() -> Path:
    """The user's settings of executors: what STEPLAB_PROFILE names, or `steplab/profile.toml` among the user's own."""
    named = os.environ.get("STEPLAB_PROFILE")
    if named:
        return expanded(named).absolute()
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else _users() / ".config") / "steplab" / "profile.toml"


def _users() -> Path:
    """The user's home directory; in a container a user may have none, and nobody else's stands for it."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")

"""What killed commands left on this machine, outside of any study's folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from steplab.core import atomic
from steplab.core.home import home
from steplab.runner.environments import registry
from steplab.runner.nets import net
from steplab.runner.ranks import group_folder


def sweep() -> None:
    """Remove what this user's killed commands left: rooms, temporary folders, half-made data and environments, nets."""
    group_folder.sweep()
    atomic.sweep(Path(tempfile.gettempdir()))
    atomic.sweep(home() / "data")
    registry.sweep()
    net.sweep()

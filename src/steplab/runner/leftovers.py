"""What killed commands left on this machine, outside of any study's folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from steplab.core import aside
from steplab.core.home import home
from steplab.runner import environments, room


def sweep() -> None:
    """Remove the rooms, temporary folders, half-made data sets and environments of this user's killed commands."""
    room.sweep()
    aside.sweep(Path(tempfile.gettempdir()))
    aside.sweep(home() / "data")
    environments.sweep()

"""Reading the file of a network profile."""

from __future__ import annotations

from pathlib import Path

from steplab.core.parsing import read_text
from steplab.planning.network.profile import MAX_BYTES, Profile, parse_profile


def read_network(file: Path | str) -> Profile:
    """A network profile from its file; anything else is one sentence."""
    return parse_profile(read_text(Path(file), MAX_BYTES), str(file))

"""What commands say of files in a study's folder that they could not use."""

from __future__ import annotations

from collections.abc import Collection

from steplab.api.left_out import left_out
from steplab.cli._output import sentence


def tell(problems: Collection[str]) -> None:
    """One sentence on stderr for each file, and for many of them their number."""
    for text in left_out(problems):
        sentence(text, stderr=True)

"""What commands say of files in a study's folder that they could not use."""

from __future__ import annotations

from collections.abc import Collection

from steplab.cli._output import console

SHOWN = 20


def tell(problems: Collection[str], what: str = "left out") -> None:
    """One sentence on stderr for each file, and for many of them their number."""
    show = console(stderr=True)
    for problem in list(problems)[:SHOWN]:
        show.print(f"{what}: {problem}", markup=False, soft_wrap=True)
    if len(problems) > SHOWN:
        show.print(f"{what}: {len(problems) - SHOWN} files more")

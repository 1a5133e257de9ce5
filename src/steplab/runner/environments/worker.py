"""How worker code is started in an environment: for ranks and for every helper alike.

Nothing of the laboratory's own packages and nothing from the current folder reaches the interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from steplab.core.catalogue import WORKER

# They would lead the interpreter to other people's packages, or run their code.
MISLEADING = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PYTHONINSPECT")


def command(python: Path, module: str = "") -> list[str]:
    """The command that starts a rank or, with a module's name, that module's `main`."""
    return [str(python), str(WORKER), *(["--run", module] if module else [])]


def variables(ambient: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The laboratory's environment variables without the misleading ones."""
    return {name: value for name, value in ambient.items() if name not in MISLEADING}

"""What other distributions add to steplab, of every kind, for `doctor`."""

from __future__ import annotations

from rich.table import Table

from steplab.cli import command_extensions
from steplab.cli._output import table
from steplab.core.catalogue import framework_extensions, network_extensions
from steplab.core.extensions import Extension
from steplab.runner.ranks.launchers import launcher_extensions


def found() -> list[Extension]:
    """Every extension, whether it can be used or not."""
    kinds = (command_extensions(), framework_extensions(), launcher_extensions(), network_extensions())
    return [extension for kind in kinds for extension in kind.values()]


def documents(extensions: list[Extension]) -> list[dict[str, object]]:
    """As `doctor --json` prints them."""
    return [
        {
            "kind": extension.kind,
            "name": extension.name,
            "distribution": extension.distribution,
            "ready": not extension.problem,
            "reason": extension.problem,
        }
        for extension in extensions
    ]


def shown(extensions: list[Extension]) -> Table:
    """As `doctor` prints them."""
    cells = [[e.name, e.kind, "no" if e.problem else "ready", e.distribution, e.problem] for e in extensions]
    return table(["extension", "kind", "", "distribution", ""], cells, left=5)

"""What Slurm offers on this machine, and what is missing to use it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from steplab.core.errors import EnvironmentFault
from steplab.runner.slurm import commands
from steplab.runner.slurm.commands import Partition


@dataclass(frozen=True)
class SlurmCheck:
    """Slurm as seen from here."""

    missing: tuple[str, ...]  # commands that are needed and not here
    problem: str  # why its partitions are not known
    partitions: tuple[Partition, ...]
    accounting: bool  # whether it remembers how jobs ended

    @property
    def here(self) -> bool:
        """Whether there is anything of Slurm here."""
        return len(self.missing) < len(commands.NEEDED)

    @property
    def verdict(self) -> str:
        """One sentence on it."""
        if not self.here:
            return "not here"
        if self.missing:
            return f"cannot be used: there is no {', '.join(self.missing)}"
        if self.problem:
            return f"cannot be used: {self.problem}"
        kept = "keeps accounts of ended jobs" if self.accounting else "keeps no accounts: sacct tells nothing"
        return f"{len(self.partitions)} partitions; {kept}"

    def document(self) -> dict[str, Any]:
        """The check as plain data."""
        return asdict(self) | {"verdict": self.verdict}


def check_slurm() -> SlurmCheck:
    """Look for Slurm's commands and ask for its partitions; takes at most a few seconds."""
    missing = tuple(commands.missing())
    if missing:
        return SlurmCheck(missing, "", (), False)
    try:
        return SlurmCheck((), "", tuple(commands.partitions()), commands.has_accounting())
    except EnvironmentFault as fault:
        return SlurmCheck((), str(fault), (), False)

"""The truth about this machine before anything is measured on it: hardware, frameworks, noise, energy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steplab.api import display
from steplab.api.machine.slurm import SlurmCheck, check_slurm
from steplab.core.catalogue import framework, framework_extensions, network_extensions
from steplab.core.extensions import Extension
from steplab.core.home import home
from steplab.core.machine_words import machine_rows
from steplab.core.trial import Level
from steplab.models import model_extensions
from steplab.runner.environments import registry
from steplab.runner.environments.registry import Listed
from steplab.runner.environments.support_matrix import Summary, Support, summarised, support_matrix
from steplab.runner.instruments import quietness
from steplab.runner.instruments.machine import energy_sources
from steplab.runner.instruments.quietness import Quietness
from steplab.runner.ranks import leftovers
from steplab.runner.ranks.launchers import launcher_extensions
from steplab.runner.ranks.private_network import obstacle
from steplab_worker import amx
from steplab_worker.machine import machine

__all__ = ["Checkup", "Summary", "Support", "doctor", "summarised", "support_matrix"]
FIRST = "torch"  # the framework to begin with, as `init` does


@dataclass(frozen=True, repr=False)
class Checkup:
    """What is on this machine, which frameworks are ready, how noisy it is."""

    machine: Mapping[str, Level | None]
    environments: tuple[Listed, ...]
    noise: Quietness
    energy: tuple[str, ...]  # what could measure it: rapl, nvml
    extensions: tuple[Extension, ...]  # what other distributions add, whether it can be used or not
    no_private_network: str  # why ranks get none; empty if they do
    home: Path  # where environments and generated data are
    data: str | None  # the folder of the user's own data
    slurm: SlurmCheck
    amx: str = "absent"  # the CPU's tiles for products in bfloat16: absent, usable or broken

    @property
    def first_step(self) -> str:
        """What a newcomer does next."""
        return first_step({row.framework for row in self.environments if row.ready})

    @property
    def machine_rows(self) -> list[tuple[str, str]]:
        """The machine in words and units that people read; what the system does not tell is left out."""
        return machine_rows(self.machine)

    def document(self) -> dict[str, Any]:
        """What `steplab doctor --json` prints."""
        refused = self.no_private_network
        return {
            "machine": self.machine,
            "environments": [asdict(row) for row in self.environments],
            "noise": asdict(self.noise) | {"verdict": self.noise.verdict},
            "energy": list(self.energy),
            "extensions": [_extension(extension) for extension in self.extensions],
            "private_network": {"available": not refused, "reason": refused},
            "home": str(self.home),
            "data": self.data,
            "slurm": self.slurm.document(),
            "amx": self.amx,
        }

    def __repr__(self) -> str:
        ready = ", ".join(row.name for row in self.environments if row.ready) or "none"
        return f"<Checkup: {self.noise.verdict}; ready: {ready}>"

    def _repr_html_(self) -> str:
        rows = [(row.name, "ready" if row.ready else "no", row.version, row.reason) for row in self.environments]
        return display.block(
            display.table(("this machine", ""), self.machine_rows, left=2),
            display.table(("framework", "", "version", ""), rows, left=4),
            display.sentence(f"noise: {self.noise.verdict}"),
        )


def doctor() -> Checkup:
    """Look at this machine; takes about a second, in which its noise is measured."""
    leftovers.sweep()
    return Checkup(
        machine=asdict(machine()),
        environments=tuple(registry.listing()),
        noise=quietness.listen(),
        energy=tuple(energy_sources()),
        extensions=_extensions(),
        no_private_network=obstacle(),
        home=home(),
        data=os.environ.get("STEPLAB_DATA"),
        slurm=check_slurm(),
        amx=amx.state(),
    )


def _extensions() -> tuple[Extension, ...]:
    kinds = (framework_extensions(), launcher_extensions(), model_extensions(), network_extensions())
    return tuple(extension for kind in kinds for extension in kind.values())


def _extension(extension: Extension) -> dict[str, object]:
    named = {"kind": extension.kind, "name": extension.name, "distribution": extension.distribution}
    return named | {"ready": not extension.problem, "reason": extension.problem}


def first_step(ready: set[str]) -> str:
    """A study in a framework that is ready, PyTorch before others.

    >>> first_step({"synthetic", "replay"}), first_step({"torch", "jax"}), first_step({"synthetic", "jax"})
    ('steplab env create torch', 'steplab init my-study', 'steplab init my-study --framework jax')
    """
    real = sorted(name for name in ready if framework(name).needs_environment)
    if not real:
        return f"steplab env create {FIRST}"
    return "steplab init my-study" + ("" if FIRST in real else f" --framework {real[0]}")

"""A real Slurm that gives out memory: control groups hold jobs to what they asked for, and the kernel kills beyond it.

It needs the rights to make control groups (version 1, as Debian 12's Slurm wants them mounted), which root of a machine
of its own has.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from slurm_box import SlurmBox

MEMORY = Path("/sys/fs/cgroup/memory")
CGROUPS = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\nConstrainSwapSpace=no\n"


class MemoryBox(SlurmBox):
    """A cluster whose jobs run out of memory in earnest."""

    def _configure(self) -> None:
        super()._configure()
        text = self.configuration.read_text().replace("TaskPlugin=task/none", "TaskPlugin=task/cgroup")
        self.configuration.write_text(text.replace("=CR_Core\n", "=CR_Core_Memory\n"))
        (self.folder / "cgroup.conf").write_text(CGROUPS)

    def close(self) -> None:
        """End it, and remove the nodes' control groups."""
        super().close()
        for number in range(1, self.nodes + 1):
            for folder, _, _ in os.walk(MEMORY / f"slurm_n{number}", topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()


def can_hold_jobs() -> bool:
    """Whether this machine lets us make such control groups."""
    probe = MEMORY / f"steplab-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True

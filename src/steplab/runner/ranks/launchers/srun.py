"""Every member is a job step on its node of a Slurm allocation, started by `srun`."""

from __future__ import annotations

import contextlib
import os
import re
import signal

from steplab.runner.ranks.keepers import RECEIVER, KeptLauncher
from steplab.runner.ranks.launching import ProcessEnd

# As long as Slurm may take to start a step on a node that others use; a longer silence is the group's start deadline's.
IMMEDIATE = "--immediate=120"
FAILED, TAIL_BYTES = 1, 4000
LACKED_MEMORY = re.compile(rb"^srun: error: \S+: tasks? \S+: Out Of Memory$", re.MULTILINE)


class SrunLauncher(KeptLauncher):
    """A step for each member, so that each has its own exit code and its own log."""

    def way(self, host: str) -> list[str]:
        """A step on a node, in the members' interpreter, which looks for modules nowhere else."""
        asked = {
            "jobid": os.environ.get("SLURM_JOB_ID", ""),
            "nodelist": self.launch.reach.get(host, ""),
            "cpus-per-task": os.environ.get("SLURM_CPUS_PER_TASK", ""),
        }
        return [
            # Steps share the allocation: how many threads a rank has, and where, is not the launcher's to say.
            "srun", "--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none", "--mem=0", "--mpi=none", "--quiet",
            "--unbuffered", "--export=ALL", IMMEDIATE,
            *(f"--{option}={value}" for option, value in asked.items() if value),
            self.launch.command[0], "-I", "-c", RECEIVER,
        ]  # fmt: skip

    def ended(self) -> ProcessEnd | None:
        """As of any process; of a step that lacked memory `srun` tells no code but a word."""
        end = super().ended()
        if end is None or end.code != FAILED or not self._lacked_memory(end.members[0]):
            return end
        return ProcessEnd(end.members, -signal.SIGKILL, out_of_memory=True)

    def _lacked_memory(self, member: int) -> bool:
        with contextlib.suppress(OSError), self.launch.folder.log(member).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return LACKED_MEMORY.search(log.read()) is not None
        return False


LAUNCHER = SrunLauncher

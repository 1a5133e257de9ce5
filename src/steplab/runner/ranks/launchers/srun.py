"""Every member is a job step on its node of a Slurm allocation, started by `srun`."""

from __future__ import annotations

import os

from steplab.runner.ranks.keepers import RECEIVER, KeptLauncher

# As long as Slurm may take to start a step on a node that others use; a longer silence is the group's start deadline's.
IMMEDIATE = "--immediate=120"


class SrunLauncher(KeptLauncher):
    """A step for each member, so that each has its own exit code and its own log."""

    def way(self, host: str) -> list[str]:
        """A step on a node, in the members' interpreter, which looks for modules nowhere else."""
        node = self.launch.reach.get(host, "")
        cpus = os.environ.get("SLURM_CPUS_PER_TASK", "")
        return [
            # Steps share the allocation: how many threads a rank has, and where, is not the launcher's to say.
            "srun", "--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none", "--mem=0", "--mpi=none", "--quiet",
            "--unbuffered", "--export=ALL", IMMEDIATE,
            *([f"--nodelist={node}"] if node else []), *([f"--cpus-per-task={cpus}"] if cpus else []),
            self.launch.command[0], "-I", "-c", RECEIVER,
        ]  # fmt: skip


LAUNCHER = SrunLauncher

"""Every member is a job step on its node of a Slurm allocation, started by `srun`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator

from steplab.core.catalogue import WORKER
from steplab.runner.ranks.launching import ProcessLauncher
from steplab.runner.ranks.processes import Process, spawn

KEEPER = WORKER / "elsewhere.py"
# As long as Slurm may take to start a step on a node that others use; a longer silence is the group's start deadline's.
IMMEDIATE = "--immediate=120"
END_S = 5.0  # for the end of a step


class SrunLauncher(ProcessLauncher):
    """Starts members one by one, auxiliary ones first: ranks look for them.

    A step for each, so that each has its own exit code and its own log. The group's token goes over standard input; the
    end of that line, which the laboratory holds, is the member's end.
    """

    def processes(self) -> Iterator[Process]:
        """A step for each member."""
        for member in sorted(self.launch.members, key=lambda member: member.is_rank):
            yield self._step(member.number)

    def _step(self, number: int) -> Process:
        command, log = [*self._srun(number), *self._kept(number)], self.launch.folder.log(number)
        process = spawn(command, (number,), log, self.launch.variables, self.launch.network, subprocess.PIPE)
        assert process.popen.stdin is not None
        with contextlib.suppress(OSError):  # it has ended already: its code says why
            process.popen.stdin.write(f"{self.launch.folder.token}\n".encode())
            process.popen.stdin.flush()
        return process

    def _srun(self, number: int) -> list[str]:
        node = self.launch.reach.get(self.launch.placements[number].host, "")
        cpus = os.environ.get("SLURM_CPUS_PER_TASK", "")
        return [
            # Steps share the allocation: how many threads a rank has, and where, is not the launcher's to say.
            "srun", "--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none", "--mem=0", "--mpi=none", "--quiet",
            "--unbuffered", "--export=ALL", IMMEDIATE,
            *([f"--nodelist={node}"] if node else []), *([f"--cpus-per-task={cpus}"] if cpus else []),
        ]  # fmt: skip

    def _kept(self, number: int) -> list[str]:
        """The member's command under its keeper, in the same interpreter, which looks for modules nowhere else."""
        command = self.launch.member(number)
        return [command[0], "-I", str(KEEPER), *command]

    def meaning(self, process: Process, code: int) -> int:
        """Of `srun`, which reports a member's death by a signal as a shell does."""
        return 128 - code if code > 128 else code

    def end(self) -> None:
        """End the input of every step, at which its keeper kills the member; then make sure of the rest."""
        for process in self._processes:
            assert process.popen.stdin is not None
            with contextlib.suppress(OSError):
                process.popen.stdin.close()
        deadline = time.monotonic() + END_S
        for process in self._processes:
            process.wait(deadline)
        for process in self._processes:
            process.kill()


LAUNCHER = SrunLauncher

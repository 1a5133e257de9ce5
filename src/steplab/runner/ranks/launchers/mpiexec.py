"""All ranks are one MPI job on this host, started by Open MPI's `mpiexec`; auxiliary members are started one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from steplab.runner.ranks.launching import ProcessLauncher
from steplab.runner.ranks.processes import Process

RANK_VARIABLE = "OMPI_COMM_WORLD_RANK"
# PMIx, of which 3 and 4 have other names for it: reached over loopback alone.
VARIABLES = {"PMIX_MCA_ptl_tcp_if_include": "lo", "PMIX_MCA_ptl_base_if_include": "lo"}


class MpiexecLauncher(ProcessLauncher):
    """Starts the ranks through `mpiexec`, which ends all of them when one fails."""

    def processes(self) -> Iterator[Process]:
        """A process for each auxiliary member, and one for all ranks."""
        ranks = tuple(member.number for member in self.launch.members if member.is_rank)
        for member in self.launch.members:
            if not member.is_rank:
                yield self.alone(member.number)
        command = [*self._mpiexec(len(ranks)), *self.launch.numbered_by(RANK_VARIABLE)]
        yield self.spawn(command, ranks, self._log, VARIABLES)

    def _mpiexec(self, ranks: int) -> list[str]:
        room, memory = str(self.launch.folder.path), str(self.launch.folder.shared_memory())
        return [
            # No binding: how many threads a rank has, and where, is not the launcher's to say.
            "mpiexec", "-n", str(ranks), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
            # The job's files are in folders that surely go.
            *_parameter("orte_tmpdir_base", room), *_parameter("btl_vader_backing_directory", memory),
            *_parameter("btl_vader_single_copy_mechanism", "none"),
            # A waiting rank gives its core away: on a busy machine the slowest tenth of exchanges took 20 instead of
            # 100 ms.
            *_parameter("mpi_yield_when_idle", "1"),
            # Shared memory alone, so that no rank listens; the launcher is reached over loopback.
            *_parameter("btl", "self,vader"), *_parameter("oob_tcp_if_include", "lo"),
            # A rank dies with its launcher, even before it can ask for that itself.
            "setpriv", "--pdeathsig", "KILL",
        ]  # fmt: skip

    def meaning(self, process: Process, code: int) -> int:
        """Of `mpiexec`, which reports a rank's death by a signal as a shell does."""
        launched = self.launch.members[process.members[0]].is_rank
        return 128 - code if launched and code > 128 else code

    def logs(self, member: int) -> Sequence[Path]:
        """The member's own log, then that of `mpiexec`."""
        return (*super().logs(member), self._log)

    @property
    def _log(self) -> Path:
        return self.launch.folder.path / "launcher.log"


def _parameter(name: str, value: str) -> list[str]:
    return ["--mca", name, value]


LAUNCHER = MpiexecLauncher

"""All ranks are one MPI job, started by Open MPI's `mpiexec`; auxiliary members are started one by one.

The job is on this host, or in a cluster in a box: then `mpiexec` is on the first host and gets to the others through a
script that enters their namespaces, as it would through ssh.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from steplab.runner.ranks import mpi
from steplab.runner.ranks.launching import ProcessLauncher
from steplab.runner.ranks.mpi import RANK_VARIABLE, VARIABLES, parameter
from steplab.runner.ranks.net_host import inside, net_and_host
from steplab.runner.ranks.processes import Process, spawn


class MpiexecLauncher(ProcessLauncher):
    """Starts the ranks through `mpiexec`, which ends all of them when one fails."""

    def processes(self) -> Iterator[Process]:
        """A process for each auxiliary member, and one for all ranks."""
        ranks = tuple(member.number for member in self.launch.members if member.is_rank)
        for member in self.launch.members:
            if not member.is_rank:
                yield self.alone(member.number)
        first = self.launch.placements[0].host
        if not self.launch.reach.get(first):
            command = [*self._mpiexec(ranks, SHARED_MEMORY), *self.launch.numbered_by(RANK_VARIABLE)]
            yield self.spawn(command, ranks, self._log, VARIABLES)
            return
        command = [*self._mpiexec(ranks, self._lines(ranks)), *self.launch.numbered_by(RANK_VARIABLE)]
        with inside(self.launch.reach[first], first) as network:
            yield spawn(command, ranks, self._log, {**self.launch.variables, **VARIABLES}, network)

    def _lines(self, ranks: Sequence[int]) -> list[str]:
        """What `mpiexec` is told of several hosts: how many ranks are on which, and how to get there."""
        counts = Counter(self.launch.placements[rank].host for rank in ranks)
        script = self.launch.folder.path / "enter"
        script.write_text(_entering(self.launch.reach), encoding="ascii")
        script.chmod(0o700)
        return [
            "--host", ",".join(f"{host}:{count}" for host, count in counts.items()),
            *parameter("plm_rsh_agent", str(script)), *parameter("btl", "self,vader,tcp"),
            *parameter("btl_tcp_if_include", "eth0"), *parameter("oob_tcp_if_include", "eth0"),
        ]  # fmt: skip

    def _mpiexec(self, ranks: Sequence[int], lines: Sequence[str]) -> list[str]:
        """The job's files are in folders that surely go."""
        room, memory = str(self.launch.folder.path), str(self.launch.folder.shared_memory())
        files = [*parameter("orte_tmpdir_base", room), *parameter("btl_vader_backing_directory", memory)]
        return mpi.mpiexec(ranks, [*lines, *files])

    def meaning(self, process: Process, code: int) -> int:
        """Of `mpiexec`, or of a member's own process."""
        launched = self.launch.members[process.members[0]].is_rank
        return mpi.meaning(code) if launched else code

    def logs(self, member: int) -> Sequence[Path]:
        """The member's own log, then that of `mpiexec`."""
        return (*super().logs(member), self._log)

    @property
    def _log(self) -> Path:
        return self.launch.folder.path / "launcher.log"


# Shared memory alone, so that no rank listens; the launcher is reached over loopback.
SHARED_MEMORY = [*parameter("btl", "self,vader"), *parameter("oob_tcp_if_include", "lo")]


def _entering(reach: Mapping[str, str]) -> str:
    """A script that runs a command in the host that its first argument names, as Open MPI calls a remote shell."""
    cases = []
    for name, net_name in reach.items():
        net, host = net_and_host(net_name, name)
        files = f"--mount=/proc/{net.pid}/fd/{net.mounts} --net=/proc/{net.pid}/fd/{host.net}"
        cases.append(f'{name}) set -- {files} --uts=/proc/{net.pid}/fd/{host.uts} sh -c "$*";;')
    return "\n".join(["#!/bin/sh", "host=$1", "shift", "case $host in", *cases, "esac", 'exec nsenter "$@"', ""])


LAUNCHER = MpiexecLauncher

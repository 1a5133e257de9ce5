"""Ranks on other hosts as one MPI job: `mpiexec` is on the laboratory's host and gets to the others as members do.

Where Open MPI would call `ssh`, it calls `mpi_agent`, which starts its daemon on a host under a keeper of ours. So the
token is there, the daemon ends with the laboratory, and nothing asks which remote shell, or which Slurm, Open MPI was
built for. Ranks exchange over TCP, on the addresses of the trial's hosts.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from steplab.runner.ranks import mpi, mpi_agent
from steplab.runner.ranks.keepers import KeptLauncher, shell_line
from steplab.runner.ranks.launching import GRACE_S, ProcessEnd
from steplab.runner.ranks.processes import Process, spawn
from steplab_worker import keeper
from steplab_worker.transport import host_and_port, split

TAG = re.compile(rb"\[\d+,(\d+)\]<std\w+>:")  # before each piece that a rank prints, by `--tag-output`


class MpiJob(KeptLauncher):
    """To be mixed with a launcher that knows a way to hosts; auxiliary members are started one by one by that one."""

    def processes(self) -> Iterator[Process]:
        """A process for each auxiliary member, and one for all ranks."""
        for member in self.launch.members:
            if not member.is_rank:
                yield self.kept(member.number)
        yield self._job(tuple(member.number for member in self.launch.members if member.is_rank))

    def _job(self, ranks: tuple[int, ...]) -> Process:
        hosts = Counter(self.launch.placements[rank].host for rank in ranks)
        lines = [*_hosts(hosts), *self._agent(list(hosts)), *self._addresses()]
        command = [*mpi.mpiexec(ranks, lines), "sh", "-c", _rank_line(shell_line(self.launch, *_numbered()))]
        variables = {name: value for name, value in self.launch.variables.items() if not name.startswith("SLURM_")}
        variables |= {name: value for name, value in self.launch.variables.items() if name == "SLURM_CONF"}
        job = spawn(command, ranks, self._log, {**variables, **mpi.VARIABLES}, output=subprocess.PIPE)
        assert job.popen.stdout is not None
        self._sorting = threading.Thread(target=self._sort, args=(job.popen.stdout,), daemon=True)
        self._sorting.start()
        return job

    def _agent(self, hosts: Sequence[str]) -> list[str]:
        """Leave word for the agent, and say where it is."""
        folder = self.launch.folder.path
        order = mpi_agent.Order(
            ways={_alias(number): self._placed(self.way(host)) for number, host in enumerate(hosts)},
            names={_alias(number): host for number, host in enumerate(hosts)},
            document={**self.document(), "variables": {**self.variables_there(), **mpi.VARIABLES}},
        )
        order.write(folder, self.worker())
        script = folder / "agent"
        program = shlex.join([sys.executable, "-P", "-m", mpi_agent.__name__, str(folder)])
        script.write_text(f'#!/bin/sh\nexec {program} "$@"\n', encoding="utf-8")
        script.chmod(0o700)
        # The daemons stay children of their keepers, and none of them goes on to further hosts by itself. An
        # allocation of Slurm is not Open MPI's to look at.
        return [
            *mpi.parameter("plm", "rsh"), *mpi.parameter("plm_rsh_agent", str(script)),
            *mpi.parameter("plm_rsh_no_tree_spawn", "1"), *mpi.parameter("orte_leave_session_attached", "1"),
            *mpi.parameter("ras", "^slurm"),
        ]  # fmt: skip

    def _placed(self, way: list[str]) -> list[str]:
        """With its program's place: `mpiexec` may put other folders before those that it is looked for in."""
        program, *words = way
        return [shutil.which(program, path=self.launch.variables.get("PATH")) or program, *words]

    def _addresses(self) -> list[str]:
        """Everybody listens on the trial's own addresses; of these each host has one."""
        _, here = split(self.launch.channel)
        addresses = dict.fromkeys([host_and_port(here)[0], *(place.address for place in self.launch.placements)])
        masked = ",".join(f"{address}/31" for address in addresses)  # of 32 bits Open MPI 4.1 makes none at all
        return [
            *mpi.parameter("btl", "self,vader,tcp"), *mpi.parameter("btl_tcp_if_include", masked),
            *mpi.parameter("oob_tcp_if_include", masked),
        ]  # fmt: skip

    def _sort(self, printed: IO[bytes]) -> None:
        """Put what the ranks print into their own logs, and the rest into that of `mpiexec`."""
        with printed, contextlib.suppress(OSError):  # the group's folder may go first
            for line in printed:
                rest, *tagged = TAG.split(line)
                self._append(self._log, rest)
                for rank, text in zip(tagged[::2], tagged[1::2], strict=True):
                    self._append(self.launch.folder.log(int(rank)), text)

    def _append(self, log: Path, text: bytes) -> None:
        if text:
            with log.open("ab") as file:
                file.write(text)

    def ended(self) -> ProcessEnd | None:
        """As of any process; an agent that lost its host has said which."""
        end = super().ended()
        if end is not None:
            self._sorting.join(GRACE_S)  # its last words are in the logs then
        lost = mpi_agent.lost(self.launch.folder.path) if end and end.code else ""
        return ProcessEnd(end.members, end.code, f"the host {lost} was lost") if end and lost else end

    def meaning(self, process: Process, code: int) -> int:
        """Of `mpiexec`, or of what keeps a member."""
        launched = self.launch.members[process.members[0]].is_rank
        return mpi.meaning(code) if launched else super().meaning(process, code)

    def signal(self, number: signal.Signals) -> None:
        """Let `mpiexec` and the keepers pass it on."""
        super().signal(number)
        for process in self._processes:
            if process.popen.stdin is None and process.code() is None:
                process.popen.send_signal(number)

    def end(self) -> None:
        """Ask `mpiexec` to end its job, then make sure: its agents end with it, and all that they keep."""
        for process in self._processes:
            if process.popen.stdin is None:
                process.signal(signal.SIGTERM)
                process.wait(time.monotonic() + GRACE_S)
                process.kill()
        super().end()

    def logs(self, member: int) -> Sequence[Path]:
        """The member's own log, then that of `mpiexec`."""
        return (*super().logs(member), self._log)

    @property
    def _log(self) -> Path:
        return self.launch.folder.path / "launcher.log"


def _hosts(hosts: Counter[str]) -> list[str]:
    """How many ranks are on which host, by names that `mpiexec` cannot take for its own host's."""
    slots = (f"{_alias(number)}:{count}" for number, count in enumerate(hosts.values()))
    return ["--host", ",".join(slots), "--tag-output"]


def _alias(number: int) -> str:
    return f"steplab-host-{number}"


def _numbered() -> list[str]:
    return ["--rank-variable", mpi.RANK_VARIABLE, "--same-output"]


def _rank_line(line: str) -> str:
    """Shared memory between ranks of one host is in a folder that surely goes."""
    return f'export OMPI_MCA_btl_vader_backing_directory="${keeper.ROOM}"; {line}'

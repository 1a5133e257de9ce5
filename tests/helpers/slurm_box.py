"""A real Slurm on one machine: a controller and a few virtual nodes, started and surely ended by whoever needs it.

It needs Debian's `slurm-wlm` and `munge`, no systemd and no configuration of the machine: key, ports, sockets and
folders are its own. All nodes have this machine's host name; they differ in SLURMD_NODENAME.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psutil

PATIENCE_S = 60.0
CONFIGURATION = """\
ClusterName=box
SlurmctldHost=localhost
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=10
MinJobAge=600
KillWait=5
MpiDefault=none
NodeName=n[1-{nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} RealMemory=4000
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP PriorityTier=2
"""


class SlurmBox:
    """A cluster; `with` starts and ends it. `variables` is what commands need to find it."""

    def __init__(self, nodes: int = 4, cpus: int = 2) -> None:
        self.nodes, self.cpus = nodes, cpus
        self.folder = Path(tempfile.mkdtemp(prefix="steplab-slurm-"))
        self.configuration = self.folder / "slurm.conf"
        self.variables = {"SLURM_CONF": str(self.configuration)}

    def __enter__(self) -> SlurmBox:
        try:
            self._configure()
            self._start_munge()
            self._daemon("slurmctld", "-i")
            for number in range(1, self.nodes + 1):
                self.start_node(number)
            self._wait_for_nodes()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _configure(self) -> None:
        for name in ("state", "log", "munge", *(f"spool/n{number}" for number in range(1, self.nodes + 1))):
            (self.folder / name).mkdir(parents=True)
        ports = free_ports(self.nodes + 1)
        text = CONFIGURATION.format(
            user=subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip(),
            folder=self.folder, controller=ports[0], first=ports[1], last=ports[-1], nodes=self.nodes, cpus=self.cpus,
        )  # fmt: skip
        self.configuration.write_text(text)

    def _start_munge(self) -> None:
        key = self.folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        (self.folder / "munge").chmod(0o700)
        self.folder.chmod(0o755)
        files = {"key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{option}={self.folder}/munge/{name}" for option, name in files.items()]
        self._daemon("munged", "--force", f"--socket={self.folder}/munge.socket", "--num-threads=2", *options)

    def start_node(self, number: int) -> None:
        """Start the daemon of a node, also again after `kill_node`."""
        self._daemon("slurmd", "-N", f"n{number}")

    def kill_node(self, number: int) -> None:
        """Kill all that a node runs, as a power cut would: its daemon and the processes of its jobs."""
        (pid,) = _pids(self.folder / f"slurmd-n{number}.pid")
        os.kill(pid, signal.SIGKILL)
        for process in self.processes(number):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def processes(self, number: int) -> list[psutil.Process]:
        """What jobs run on a node, those that watch over them first."""
        mine = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                variables = process.environ()
                here = variables.get("SLURM_CONF") == str(self.configuration)
                if here and variables.get("SLURMD_NODENAME") == f"n{number}":
                    mine.append(process)
        watchers = {process.ppid(): process.parent() for process in mine if process.is_running()}
        daemons = [parent for parent in watchers.values() if parent and "slurmstepd" in parent.name()]
        return [*daemons, *mine]

    def _daemon(self, *command: str) -> None:
        program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin") or command[0]
        with (self.folder / "log" / f"{command[0]}.out").open("ab") as log:
            subprocess.run(
                [program, *command[1:]], env=os.environ | self.variables, cwd="/", stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, check=True, timeout=PATIENCE_S,
            )  # fmt: skip

    def run(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run(
            command, env=os.environ | self.variables, capture_output=True, text=True, check=True, timeout=PATIENCE_S
        )
        return done.stdout

    def jobs(self, *states: str) -> list[tuple[str, str, str]]:
        """Number, name and nodes of the jobs in these states, by default of those that wait or work."""
        wanted = f"--states={','.join(states or ('PENDING', 'RUNNING', 'COMPLETING'))}"
        lines = self.run("squeue", "--noheader", wanted, "--format=%i|%j|%N").splitlines()
        return [(number, name, nodes) for number, name, nodes in (line.split("|") for line in lines)]

    def cancel_all(self) -> None:
        """End all jobs, and wait until they are gone."""
        deadline = time.monotonic() + PATIENCE_S
        while jobs := self.jobs():
            self.run("scancel", "--quiet", *(number for number, _, _ in jobs))
            if time.monotonic() > deadline:
                raise TimeoutError(f"these jobs do not end: {jobs}")
            time.sleep(0.3)

    def _wait_for_nodes(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(set(self.run("sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N").split())) < self.nodes:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the nodes did not come up: {self.folder / 'log'}")
            time.sleep(0.3)

    def close(self) -> None:
        """End jobs, daemons and what they started; remove the folder."""
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            self.run("scancel", "--full", "--signal=KILL", "--user", str(os.getuid()))
        nodes = (f"slurmd-n{number}.pid" for number in range(1, self.nodes + 1))
        pids = [pid for name in (*nodes, "slurmctld.pid", "munge/pid") for pid in _pids(self.folder / name)]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            _wait(pids)
        shutil.rmtree(self.folder, ignore_errors=True)


def _pids(file: Path) -> list[int]:
    with contextlib.suppress(OSError, ValueError):
        return [int(file.read_text())]
    return []


def _wait(pids: list[int]) -> None:
    deadline = time.monotonic() + 3
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Ports in a row that nobody has just now."""
    while True:
        first = 20000 + secrets.randbelow(20000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return list(range(first, first + count))

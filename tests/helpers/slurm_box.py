"""A real Slurm on one machine: a controller and a few virtual nodes, started and surely ended by whoever needs it.

It needs Debian's `slurm-wlm` and `munge`, no systemd and no configuration of the machine: key, ports, sockets and
folders are its own. All nodes have this machine's host name; they differ in SLURMD_NODENAME.

Daemons leave their parent, and a `slurmstepd` outlives its daemon: it hides its variables, ignores SIGTERM and keeps
trying to tell a controller that is gone. So whatever has the box's configuration, works in its folder, writes its logs
or was started by such a process is killed, by a keeper, which also does so when the box's owner was killed. A box whose
keeper was killed, too, is emptied by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import psutil

PATIENCE_S = 180.0
PREFIX, KEPT = "steplab-slurm-", "kept"  # of the folders; the file in each that its keeper has locked
QUIET_LOOKS, LOOK_S = 5, 0.1  # a process between two programs is hard to see: nothing is left if nothing is for a while
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
        sweep()
        self.nodes, self.cpus = nodes, cpus
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.configuration = self.folder / "slurm.conf"
        self.variables = {"SLURM_CONF": str(self.configuration)}
        with (self.folder / "new").open("w") as kept:
            fcntl.flock(kept, fcntl.LOCK_EX)  # the keeper inherits the lock, and has it as long as it lives
            (self.folder / "new").rename(self.folder / KEPT)  # never there without being locked
            self.keeper = subprocess.Popen(
                [sys.executable, __file__, self.folder], stdin=subprocess.PIPE, start_new_session=True, cwd="/",
                pass_fds=(kept.fileno(),),
            )  # fmt: skip

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
        for process in self.processes(number):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def processes(self, number: int) -> list[psutil.Process]:
        """What runs on a node: its daemon first, then what watches over the jobs, then they."""
        name, log = f"n{number}", str(self.folder / "log" / f"slurmd-n{number}.log")
        watchers, jobs = [], []
        for process in in_box(self.folder):
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get("SLURMD_NODENAME") == name:
                    jobs.append(process)
                elif log in (file.path for file in process.open_files()):
                    watchers.append(process)
        return [*sorted(watchers, key=lambda process: process.name() != "slurmd"), *jobs]

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
        assert self.keeper.stdin is not None
        self.keeper.stdin.close()
        if self.keeper.wait():
            raise RuntimeError(f"processes of {self.folder} do not end")


def in_box(folder: Path) -> Iterator[psutil.Process]:
    """Every process of a box, and what these have started."""
    seen = {os.getpid()}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid not in seen and _belongs(process, folder):
                for each in (process, *process.children(recursive=True)):
                    if each.pid not in seen:
                        seen.add(each.pid)
                        yield each


def _belongs(process: psutil.Process, folder: Path) -> bool:
    """Whether it was told of the box's configuration, works in its folder, or is one of Slurm that writes its logs."""
    if process.environ().get("SLURM_CONF") == str(folder / "slurm.conf"):
        return True
    if Path(process.cwd()).is_relative_to(folder):
        return True
    if not process.name().startswith(("slurm", "munge", "srun")):
        return False
    return any(Path(file.path).is_relative_to(folder) for file in process.open_files())


def keep(folder: Path) -> None:
    """Wait until the box's owner closes it or dies; then end all that is in it and remove its folder."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever ends the tests ends their owner, and so the box
    sys.stdin.read()
    empty(folder)


def empty(folder: Path) -> None:
    """End all that is in a box, and remove its folder."""
    deadline, quiet = time.monotonic() + PATIENCE_S, 0
    while quiet < QUIET_LOOKS:
        left = list(in_box(folder))
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        quiet = 0 if left else quiet + 1
        if time.monotonic() > deadline:
            sys.exit(f"these do not end: {left}")
        time.sleep(LOOK_S)
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Empty the boxes that nobody keeps any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (folder / KEPT).open() as kept:
            fcntl.flock(kept, fcntl.LOCK_EX | fcntl.LOCK_NB)
            empty(folder)


def free_ports(count: int) -> list[int]:
    """Ports in a row that nobody has just now."""
    while True:
        first = 20000 + secrets.randbelow(12000)  # below those that connections get
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return list(range(first, first + count))


if __name__ == "__main__":
    keep(Path(sys.argv[1]))

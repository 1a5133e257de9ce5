"""Slurm's own commands, called with a time limit; what they print becomes types, what goes wrong one sentence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from steplab.core.errors import EnvironmentFault
from steplab.runner.ranks.private_network import die_with

NEEDED = ("sbatch", "squeue", "scancel", "scontrol", "srun")
PATIENCE_S = 60.0
# They would change what the batch script says: Slurm lets them win.
OVERRIDING = (
    "SBATCH_ARRAY_INX", "SBATCH_EXPORT", "SBATCH_JOB_NAME", "SBATCH_NO_REQUEUE", "SBATCH_OPEN_MODE", "SBATCH_OUTPUT",
    "SBATCH_REQUEUE", "SBATCH_SIGNAL", "SBATCH_TIMELIMIT", "SBATCH_WAIT",
)  # fmt: skip
_QUEUE = "%i|%j|%T|%N|%r"


class SlurmSilent(EnvironmentFault):
    """Slurm did not answer: it may have done what it was asked, or may do it yet."""


class SlurmRefused(EnvironmentFault):
    """Slurm answered no."""


@dataclass(frozen=True)
class Job:
    """A job as the queue shows it."""

    number: str
    name: str
    state: str
    nodes: str = ""
    reason: str = ""  # why it waits


@dataclass(frozen=True)
class Partition:
    """A part of the cluster that jobs can be sent to."""

    name: str
    default: bool
    up: bool
    limit: str
    nodes: str
    cpus: str
    gpus: str


def missing() -> list[str]:
    """The commands that are needed and not here."""
    return [program for program in NEEDED if shutil.which(program) is None]


def submit(script: str) -> str:
    """Submit a batch script; the job's number."""
    # Killed with its laboratory: what it has sent by then is found in the queue by its name.
    laboratory = os.getpid()
    answer = _call(["sbatch", "--parsable"], script, lambda: die_with(laboratory))
    number = answer.strip().splitlines()[-1].partition(";")[0] if answer.strip() else ""
    if not number.isdigit():
        raise SlurmSilent(f"`sbatch` answered {answer.strip()!r}, which is no job's number")
    return number


def queue() -> list[Job]:
    """This user's jobs that wait, work or ended a short time ago (Slurm's MinJobAge)."""
    text = _call(["squeue", "--noheader", "--states=all", f"--user={os.getuid()}", f"--format={_QUEUE}"])
    rows = (line.split("|", 4) for line in text.splitlines())
    return [Job(*row) for row in rows if len(row) == 5]


def accounts(numbers: Collection[str]) -> dict[str, str]:
    """The states of jobs by Slurm's accounting, by number; empty where there is none."""
    if not numbers or shutil.which("sacct") is None:
        return {}
    wanted = ["--allocations", "--noheader", "--parsable2", "--format=JobIDRaw,State", f"--jobs={','.join(numbers)}"]
    try:
        text = _call(["sacct", *wanted])
    except EnvironmentFault:
        return {}  # no accounting storage, or none that answers
    rows = (line.split("|") for line in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) == 2}


def has_accounting() -> bool:
    """Whether `sacct` knows how jobs ended that the queue has forgotten."""
    try:
        _call(["sacct", "--noheader", "--format=JobIDRaw", "--starttime=now"], patience_s=10.0)
    except EnvironmentFault:
        return False
    return True


def cancel(numbers: Sequence[str]) -> None:
    """End jobs; those that have ended by themselves are no error."""
    if numbers:
        _call(["scancel", "--quiet", *numbers])


def partitions() -> list[Partition]:
    """The parts of the cluster."""
    text = _call(["sinfo", "--noheader", "--format=%P|%a|%l|%D|%c|%G"], patience_s=10.0)
    rows = (line.split("|") for line in text.splitlines())
    return [_partition(*row) for row in rows if len(row) == 6]


def _partition(name: str, up: str, limit: str, nodes: str, cpus: str, gpus: str) -> Partition:
    shown = "" if gpus == "(null)" else gpus
    return Partition(name.rstrip("*"), name.endswith("*"), up == "up", limit, nodes, cpus, shown)


def hosts(nodes: str) -> list[str]:
    """The nodes of a list such as `n[1-4]`."""
    return _call(["scontrol", "show", "hostnames", nodes]).split()


def address(node: str) -> str:
    """Where other nodes reach a node."""
    address = re.search(r"\bNodeAddr=(\S+)", _call(["scontrol", "--oneliner", "show", "node", node]))
    return address[1] if address else node


def end_of_job(number: str) -> str:
    """When a job's time is over, as Slurm writes it; empty if it does not say."""
    try:
        return _call(["squeue", "--noheader", f"--jobs={number}", "--format=%e"]).strip()
    except EnvironmentFault:
        return ""


def environment(ambient: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of Slurm's commands."""
    return {name: value for name, value in ambient.items() if name not in OVERRIDING}


def _call(
    command: Sequence[str], text: str = "", before: Callable[[], None] | None = None, patience_s: float = PATIENCE_S
) -> str:
    program = command[0]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", check=False, timeout=patience_s,
            env=environment(), preexec_fn=before,
        )  # fmt: skip
    except FileNotFoundError:
        raise EnvironmentFault(f"there is no `{program}` here; the executor slurm needs Slurm's commands") from None
    except subprocess.TimeoutExpired:
        raise SlurmSilent(
            f"`{program}` has not answered within {patience_s:.0f} s; is Slurm's controller up?"
        ) from None
    if done.returncode:
        raise _fault(program, done.stderr or done.stdout)
    return done.stdout


def _fault(program: str, printed: str) -> EnvironmentFault:
    """What a command complained of, in one line, and whether Slurm has heard it at all."""
    lines = [re.sub(r"^\w+: (?:error: )?", "", line).strip() for line in printed.splitlines() if line.strip()]
    text = "; ".join(dict.fromkeys(lines)) or "it gave no reason"
    silent = re.search(r"timed out|unable to contact|connection refused|communication|zero bytes", text, re.I)
    kind = SlurmSilent if silent else SlurmRefused
    fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")]
    return kind(f"`{program}` failed: {(fatal[-1] if fatal else text)[:500]}")

"""What a rank may use, what it used, and its death with its parent."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from typing import Dict, Optional

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies (Linux; elsewhere the channel's end does it)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def limit_memory(limit_bytes: int) -> None:
    """Let allocations fail beyond that much private memory; 0 lifts the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes or hard, hard))


def reset_peak_memory() -> None:
    """Forget the peak so far, so that a warm rank reports each trial's own."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return  # not Linux, or not allowed: the peak then covers the process's whole life


def used() -> Dict[str, float]:
    """CPU seconds so far of this process and of its children that have ended, and its peak resident memory in bytes."""
    usage, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = usage.ru_utime + usage.ru_stime + children.ru_utime + children.ru_stime
    return {"cpu_s": cpu_s, "peak_bytes": _status_bytes("VmHWM") or usage.ru_maxrss * 1024}


def resident_bytes() -> Optional[float]:
    """What this process has in main memory now; None where the system does not say."""
    return _status_bytes("VmRSS") or None


def busy_s() -> Optional[float]:
    """CPU seconds that all programs of this host have used since it started; None where the system does not say."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _status_bytes(name: str) -> int:
    try:
        with open("/proc/self/status") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        return int(lines[name].split()[0]) * 1024
    except (OSError, KeyError):
        return 0


def allowed_cpus() -> int:
    """How many CPUs this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

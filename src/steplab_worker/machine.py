"""The machine that this process runs on, described by itself with nothing but the standard library."""

from __future__ import annotations

import glob
import os
import platform
import socket
from dataclasses import dataclass
from functools import lru_cache
from typing import Dict, List, Optional

CPUINFO, MEMINFO = "/proc/cpuinfo", "/proc/meminfo"
MAX_KHZ = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
GPUS = "/proc/driver/nvidia/gpus/*/information"


@dataclass(frozen=True)
class Machine:
    """A machine as the system there describes it; None and empty where it does not say."""

    host: str
    system: str
    cpu: str
    cores: Optional[int]  # without the second threads of a core
    cpus: Optional[int]
    mhz: Optional[float]  # the highest clock rate, or the present one where only that is told
    memory_bytes: Optional[int]
    gpus: str  # names, separated by commas
    python: str  # of the process that was asked
    boot: str = ""  # the same for all that share a kernel, and so its clock, whatever their hosts are called


@lru_cache(maxsize=None)
def machine() -> Machine:
    """The machine of this process."""
    processors = _processors(_text(CPUINFO))
    return Machine(
        host=socket.gethostname(),
        system="%s %s" % (platform.system(), platform.release()),
        cpu=_cpu(processors),
        cores=_cores(processors),
        cpus=os.cpu_count(),
        mhz=_mhz(processors),
        memory_bytes=_memory_bytes(),
        gpus=", ".join(_gpus()),
        python=platform.python_version(),
        boot=_text(BOOT_ID).strip(),
    )


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _processors(text: str) -> List[Dict[str, str]]:
    """The entries of /proc/cpuinfo, one for each CPU."""
    return [_fields(block) for block in text.split("\n\n") if block.strip()]


def _fields(text: str) -> Dict[str, str]:
    rows = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in rows}


def _cpu(processors: List[Dict[str, str]]) -> str:
    names = (one["model name"] for one in processors if "model name" in one)
    return next(names, platform.processor() or platform.machine())


def _cores(processors: List[Dict[str, str]]) -> Optional[int]:
    known = {(one.get("physical id"), one["core id"]) for one in processors if "core id" in one}
    return len(known) or None


def _mhz(processors: List[Dict[str, str]]) -> Optional[float]:
    highest = _text(MAX_KHZ).strip()
    if highest.isdigit():
        return int(highest) / 1000.0
    present = [float(one["cpu MHz"]) for one in processors if "cpu MHz" in one]
    return sum(present) / len(present) if present else None


def _memory_bytes() -> Optional[int]:
    total = _fields(_text(MEMINFO)).get("MemTotal", "").split()
    if total:
        return int(total[0]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _gpus() -> List[str]:
    """The GPUs that NVIDIA's driver shows."""
    about = (_fields(_text(path)) for path in sorted(glob.glob(GPUS)))
    return [fields["Model"] for fields in about if "Model" in fields]

"""What this machine is, and how busy others keep it."""

from __future__ import annotations

import os
import platform
import socket
from functools import cache
from pathlib import Path

import psutil

from steplab.core.trial import Level
from steplab.runner.instruments.energy import rapl_zones


@cache
def machine() -> dict[str, Level | None]:
    """A description of this machine for records."""
    frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return {
        "host": socket.gethostname(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": cpu_name(),
        "cores": psutil.cpu_count(logical=False),
        "cpus": os.cpu_count(),
        "mhz": frequency.max or frequency.current if frequency else None,
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": ", ".join(gpu_names()),
        "python": platform.python_version(),
    }


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def gpu_names() -> list[str]:
    """The NVIDIA GPUs that NVML shows; none without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def _text(name: object) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def busy_cpu_s() -> float:
    """CPU seconds that all programs of this machine have used since it started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def energy_sources() -> list[str]:
    """What could measure energy here: `rapl`, `nvml`."""
    return ["rapl"] * bool(rapl_zones()) + ["nvml"] * bool(gpu_names())

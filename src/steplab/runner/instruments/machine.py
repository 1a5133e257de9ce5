"""How busy this machine is, and what can be measured on it; what it is, `steplab_worker.machine` says."""

from __future__ import annotations

import psutil

from steplab.runner.instruments.energy import rapl_zones


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

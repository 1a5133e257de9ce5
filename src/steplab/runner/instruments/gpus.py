"""What NVML shows of the GPUs during a trial: use, memory, power, energy, throttling, and which rank is on which."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

from steplab.core.record import Gpu

Nvml = ModuleType | SimpleNamespace  # the module pynvml, or what answers like it

# Bits of nvmlClocksEventReasons by which a GPU is slower than it could be (NVML API reference).
REASONS = {
    0x4: "its power limit",
    0x8: "a hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "the power brake",
}


def nvml() -> Nvml | None:
    """NVML, if there is a driver and a GPU; it stays open for the life of the laboratory."""
    import pynvml

    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError:
        return None
    return pynvml if count else None


@dataclass
class _Device:
    """One GPU and what was seen of it."""

    handle: Any
    name: str
    use: list[float] = field(default_factory=list)
    watts: list[float] = field(default_factory=list)
    memory_bytes: float = 0.0
    by_process: dict[int, float] = field(default_factory=dict)  # the most memory of each process
    reasons: int = 0
    millijoules: float | None = None


class GpuWatch:
    """Watches the GPUs during one trial; without NVML it has none and costs nothing."""

    def __init__(self, library: Nvml | None) -> None:
        self.library = library
        self.devices: list[_Device] = []
        self.handles: list[tuple[Any, str]] = []
        for index in range(library.nvmlDeviceGetCount() if library else 0):
            handle = self._asked("nvmlDeviceGetHandleByIndex", index)
            if handle is not None:
                self.handles.append((handle, _text(self._asked("nvmlDeviceGetName", handle))))

    def _asked(self, function: str, *arguments: Any) -> Any:
        """What NVML answers; None where this GPU or driver does not know."""
        import pynvml

        call: Callable[..., Any] | None = getattr(self.library, function, None)
        if call is None:
            return None
        try:
            return call(*arguments)
        except pynvml.NVMLError:
            return None

    def begin(self) -> None:
        """Start from here."""
        self.devices = [_Device(handle, name) for handle, name in self.handles]
        for device in self.devices:
            device.millijoules = self._asked("nvmlDeviceGetTotalEnergyConsumption", device.handle)

    def look(self) -> None:
        """Take one sample of each GPU."""
        for device in self.devices:
            rates = self._asked("nvmlDeviceGetUtilizationRates", device.handle)
            memory = self._asked("nvmlDeviceGetMemoryInfo", device.handle)
            power = self._asked("nvmlDeviceGetPowerUsage", device.handle)
            reasons = self._asked("nvmlDeviceGetCurrentClocksThrottleReasons", device.handle)
            if rates is not None:
                device.use.append(rates.gpu / 100)
            if memory is not None:
                device.memory_bytes = max(device.memory_bytes, float(memory.used))
            if power is not None:
                device.watts.append(power / 1000)
            device.reasons |= reasons or 0
            for process in self._asked("nvmlDeviceGetComputeRunningProcesses", device.handle) or ():
                used = float(process.usedGpuMemory or 0)
                device.by_process[process.pid] = max(device.by_process.get(process.pid, 0.0), used)

    def by_rank(self, pids: Mapping[int, int], device: str) -> dict[int, int]:
        """Which rank is on which GPU: told by its process, or, where a container hides that, by the usual order.

        `device` is what the framework says it runs on; the order is assumed only if that is the name of these GPUs.
        """
        gpus = {rank: at for rank, pid in pids.items() for at, gpu in enumerate(self.devices) if pid in gpu.by_process}
        if not gpus and device and any(gpu.name == device for gpu in self.devices):
            return {rank: rank % len(self.devices) for rank in pids}
        return gpus

    def gpu(self, at: int, pid: int) -> Gpu:
        """What a rank's GPU did."""
        device = self.devices[at]
        return Gpu(
            name=device.name,
            use=statistics.fmean(device.use) if device.use else None,
            memory_bytes=device.by_process.get(pid) or device.memory_bytes or None,
            watts=statistics.fmean(device.watts) if device.watts else None,
        )

    def joules(self, used: set[int], seconds: float) -> float | None:
        """Energy of the GPUs that ranks used: by their counters, or else mean power times time."""
        parts = [self._joules(self.devices[at], seconds) for at in used]
        return sum(part for part in parts if part is not None) if parts and None not in parts else None

    def _joules(self, device: _Device, seconds: float) -> float | None:
        now = self._asked("nvmlDeviceGetTotalEnergyConsumption", device.handle)
        if now is not None and device.millijoules is not None and now >= device.millijoules:
            return float(now - device.millijoules) / 1000
        return statistics.fmean(device.watts) * seconds if device.watts else None

    def throttled(self, used: set[int]) -> str | None:
        """Why the clocks of the used GPUs were held back; None if there is none to be seen."""
        if not used:
            return None
        sentences = []
        for at in sorted(used):
            reasons = [text for bit, text in REASONS.items() if self.devices[at].reasons & bit]
            sentences += [f"GPU {at} was slowed by {' and '.join(reasons)}"] if reasons else []
        return "; ".join(sentences)


def _text(name: object) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)

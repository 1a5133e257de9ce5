"""GPUs as NVML shows them; NVML is played by an object that answers like it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from steplab.runner.instruments.gpus import GpuWatch
from steplab.runner.instruments.surroundings import Instruments, Watch


def unsupported(*_: Any) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


class Cards:
    """Some GPUs whose figures a test sets."""

    def __init__(self, count: int = 2) -> None:
        self.use, self.power, self.energy, self.reasons = [50] * count, [100_000] * count, [0] * count, [0] * count
        self.pids: list[list[int]] = [[] for _ in range(count)]
        self.nvml = SimpleNamespace(
            nvmlDeviceGetCount=lambda: count,
            nvmlDeviceGetHandleByIndex=lambda index: index,
            nvmlDeviceGetName=lambda at: b"Card",
            nvmlDeviceGetUtilizationRates=lambda at: SimpleNamespace(gpu=self.use[at], memory=1),
            nvmlDeviceGetMemoryInfo=lambda at: SimpleNamespace(used=4 << 30),
            nvmlDeviceGetPowerUsage=lambda at: self.power[at],
            nvmlDeviceGetTotalEnergyConsumption=lambda at: self.energy[at],
            nvmlDeviceGetCurrentClocksThrottleReasons=lambda at: self.reasons[at],
            nvmlDeviceGetComputeRunningProcesses=lambda at: [
                SimpleNamespace(pid=pid, usedGpuMemory=1 << 30) for pid in self.pids[at]
            ],
        )


def test_a_rank_gets_the_gpu_of_its_process() -> None:
    cards = Cards()
    cards.pids = [[11], [10]]
    watch = GpuWatch(cards.nvml)
    watch.begin()
    watch.look()
    cards.use, cards.power = [50, 70], [100_000, 140_000]
    watch.look()
    placed = watch.by_rank({0: 10, 1: 11}, "")
    assert placed == {0: 1, 1: 0}
    gpu = watch.gpu(placed[0], 10)
    assert (gpu.name, gpu.use, gpu.watts, gpu.memory_bytes) == ("Card", pytest.approx(0.6), 120.0, 1 << 30)


def test_a_container_that_hides_processes_leaves_the_usual_order() -> None:
    watch = GpuWatch(Cards().nvml)
    watch.begin()
    watch.look()
    assert watch.by_rank({0: 10, 1: 11, 2: 12}, "Card") == {0: 0, 1: 1, 2: 0}
    assert watch.by_rank({0: 10}, "cpu") == {}


def test_energy_is_the_counter_of_the_used_gpus() -> None:
    cards = Cards()
    watch = GpuWatch(cards.nvml)
    watch.begin()
    cards.energy = [5_000, 70_000]
    assert watch.joules({0}, 2.0) == 5.0
    assert watch.joules({0, 1}, 2.0) == 75.0
    assert watch.joules(set(), 2.0) is None


def test_without_a_counter_energy_is_power_times_time() -> None:
    cards = Cards(1)
    cards.nvml.nvmlDeviceGetTotalEnergyConsumption = unsupported
    watch = GpuWatch(cards.nvml)
    watch.begin()
    watch.look()
    cards.power = [300_000]
    watch.look()
    assert watch.joules({0}, 2.0) == 400.0


def test_what_a_gpu_does_not_know_is_left_out() -> None:
    cards = Cards(1)
    for name in ("UtilizationRates", "PowerUsage", "TotalEnergyConsumption", "ComputeRunningProcesses", "MemoryInfo"):
        setattr(cards.nvml, f"nvmlDeviceGet{name}", unsupported)
    watch = GpuWatch(cards.nvml)
    watch.begin()
    watch.look()
    gpu = watch.gpu(0, 10)
    assert (gpu.use, gpu.memory_bytes, gpu.watts) == (None, None, None)
    assert watch.joules({0}, 1.0) is None


def test_reasons_for_slow_clocks_are_told_and_idling_is_none() -> None:
    cards = Cards()
    cards.reasons = [pynvml.nvmlClocksThrottleReasonGpuIdle, 0]
    watch = GpuWatch(cards.nvml)
    watch.begin()
    watch.look()
    assert watch.throttled({0, 1}) == ""
    cards.reasons = [pynvml.nvmlClocksThrottleReasonHwThermalSlowdown | pynvml.nvmlClocksThrottleReasonSwPowerCap, 0]
    watch.look()
    assert watch.throttled({0, 1}) == "GPU 0 was slowed by its power limit and heat (hardware)"
    assert watch.throttled({1}) == ""
    assert watch.throttled(set()) is None


def test_a_watched_trial_carries_what_its_gpu_did(tmp_path: Path) -> None:
    cards = Cards(1)
    cards.pids = [[10]]
    watch = Watch(Instruments(tmp_path, cards.nvml), {0: 10}, [])
    cards.energy = [9_000]
    seen = watch.end()
    assert seen.gpus[0].name == "Card"
    assert seen.energy(1.0, 50.0).model_dump() == {"joules": 9.0, "provenance": "nvml"}
    assert seen.throttled == ""


def test_no_gpu_no_cost(tmp_path: Path) -> None:
    tools = Instruments(tmp_path)
    assert tools.period_s is None
    watch = Watch(tools, {}, [])
    assert watch._thread is None
    assert watch.end().gpus == {}

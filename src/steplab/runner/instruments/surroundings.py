"""What happens around a trial: CPU time of other programs, throttling, GPUs, energy.

Counters are read when a trial begins and ends. Only where something must be looked at in between (GPUs, clock rates,
energy counters that wrap) a thread of the laboratory does so; it sleeps otherwise, and without such things there is
none.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil

from steplab.core.record import Energy, Gpu
from steplab.runner.instruments import energy, gpus
from steplab.runner.instruments.energy import RaplMeter
from steplab.runner.instruments.gpus import GpuWatch, Nvml
from steplab.runner.instruments.machine import busy_cpu_s
from steplab.runner.instruments.throttling import ROOT, ThrottleWatch
from steplab.runner.ranks.group import RankGroup
from steplab_worker.machine import machine

GPU_PERIOD_S = 0.5  # NVML's own figures are means over up to a second
CLOCK_PERIOD_S = 1.0
COUNTER_PERIOD_S = 30.0  # often enough for counters that wrap after minutes


@dataclass(frozen=True)
class Seen:
    """What was seen around a trial."""

    other_cpu_s: float | None = None
    throttled: str | None = None
    cpu_joules: float | None = None
    gpu_joules: float | None = None
    gpus: Mapping[int, Gpu] = field(default_factory=dict)  # by rank
    boot: str = ""  # of the kernel on which this was seen

    def energy(self, cpu_s: float, watts_per_cpu: float | None) -> Energy:
        """The trial's energy with its provenance; none on a virtual clock."""
        if self is NOTHING:
            return Energy()
        return energy.energy(self.gpu_joules, self.cpu_joules, cpu_s, watts_per_cpu)


NOTHING = Seen()  # for trials on a virtual clock: nothing that other programs do matters to them


class Instruments:
    """What this machine can tell; found once, used for one trial after another."""

    def __init__(self, root: Path = ROOT, library: Nvml | None = None) -> None:
        self.throttling = ThrottleWatch(root)
        self.rapl = RaplMeter(root)
        self.gpus = GpuWatch(library)

    @property
    def period_s(self) -> float | None:
        """How often to look during a trial; None for not at all."""
        if self.gpus.handles:
            return GPU_PERIOD_S
        if self.throttling.periodic:
            return CLOCK_PERIOD_S
        return COUNTER_PERIOD_S if self.rapl.zones else None


@cache
def instruments() -> Instruments:
    """The instruments of this machine."""
    return Instruments(ROOT, gpus.nvml())


class Watch:
    """Watches one trial from now on until `end`."""

    def __init__(self, tools: Instruments, ranks: Mapping[int, int], own: Iterable[int], device: str = "") -> None:
        self.tools, self.ranks, self.own, self.device = tools, ranks, tuple(own), device
        self.parts = (tools.throttling, tools.rapl, tools.gpus)
        for part in self.parts:
            part.begin()
        self._stop = threading.Event()
        self._thread = None if tools.period_s is None else self._looking()
        self.began, self.cpu = time.monotonic(), _cpu_of(self.own)
        self.busy = busy_cpu_s()

    def _looking(self) -> threading.Thread:
        thread = threading.Thread(target=self._look_now_and_then, name="surroundings", daemon=True)
        thread.start()
        return thread

    def _look_now_and_then(self) -> None:
        # The first look comes sooner, so that a short trial has one.
        period = self.tools.period_s or 0.0
        pause = period / 5
        while not self._stop.wait(pause):
            for part in self.parts:
                part.look()
            pause = period

    def end(self) -> Seen:
        """Stop watching; what was seen."""
        others = busy_cpu_s() - self.busy - (_cpu_of(self.own) - self.cpu)
        seconds = time.monotonic() - self.began
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        watch = self.tools.gpus
        if watch.devices and not any(one.use or one.watts for one in watch.devices):
            watch.look()
        placed = watch.by_rank(self.ranks, self.device)
        used = set(placed.values())
        return Seen(
            other_cpu_s=max(0.0, others),
            throttled=_joined(self.tools.throttling.end(), watch.throttled(used)),
            cpu_joules=self.tools.rapl.end(),
            gpu_joules=watch.joules(used, seconds),
            gpus={rank: watch.gpu(at, self.ranks[rank]) for rank, at in placed.items()},
            boot=machine().boot,
        )


class Elsewhere:
    """Watches a trial of which some ranks are on other machines: their clock rates, GPUs and energy are not seen."""

    def __init__(self, boot: str, own: Iterable[int]) -> None:
        self.boot, self.own = boot, tuple(own)
        self.cpu, self.busy = _cpu_of(self.own), busy_cpu_s()

    def end(self) -> Seen:
        """Stop watching; what was seen on this machine."""
        others = busy_cpu_s() - self.busy - (_cpu_of(self.own) - self.cpu)
        return Seen(other_cpu_s=max(0.0, others), boot=self.boot)


def watch(group: RankGroup) -> Watch | Elsewhere:
    """Watch a trial of a group of ranks: its processes, helpers and the laboratory itself are not others."""
    boot = machine().boot
    if any(hello.machine.boot != boot for hello in group.hello.values()):
        return Elsewhere(boot, {os.getpid(), *group.pids})
    here = socket.gethostname()
    ranks = {rank: hello.pid for rank, hello in group.hello.items() if hello.host == here}
    return Watch(instruments(), ranks, {os.getpid(), *group.pids}, group.versions.get("device", ""))


def _cpu_of(pids: Iterable[int]) -> float:
    """CPU seconds that these processes have used; one that is gone counts for none."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total


def _joined(*texts: str | None) -> str | None:
    known = [text for text in texts if text is not None]
    return "; ".join(text for text in known if text) if known else None

"""Throttling, where the system shows it: CPU quotas of the container, heat, clock rates.

Counters are read before and after a trial. Linux shows them under /proc and /sys; the root can be another folder, so
that tests can lay out machines that are not at hand.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
COLD = 0.9  # clock rates below this share of the base rate, while ranks work, are throttled ones
COLD_OF_MAXIMUM = 0.5  # where the base rate is unknown: boost can be nearly twice the base
FEWEST_RATES = 2  # looks at the clock rates before anything is said of them


@dataclass(frozen=True)
class Quota:
    """What a CPU quota (of a container, a batch system) has done so far: cgroup `cpu.stat`."""

    periods: int
    throttled: int
    seconds: float


def read_number(path: Path) -> int | None:
    """The whole number that a file holds; None if it cannot be read."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def quota_files(root: Path = ROOT) -> list[Path]:
    """The `cpu.stat` of this process's cgroup and of those above it, in version 1 or 2 of cgroups."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    candidates = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mounts = [controllers, "cpu", "cpu,cpuacct"] if controllers else ["", "unified"]
        for mount in dict.fromkeys(mounts):
            candidates += _upward(root / "sys/fs/cgroup" / mount, path)
    return [file for file in dict.fromkeys(candidates) if read_quota(file)]


def _upward(mount: Path, path: str) -> list[Path]:
    """The file in a cgroup and in all above it: a limit anywhere holds below. In a container only the root is seen."""
    inside = mount / path.strip("/")
    return [place / "cpu.stat" for place in (inside, *inside.parents) if place.is_relative_to(mount)]


def read_quota(file: Path) -> Quota | None:
    """The counters of a `cpu.stat`; None if it has none."""
    try:
        pairs = dict(line.split() for line in file.read_text(encoding="ascii").splitlines() if line.count(" ") == 1)
        seconds = (
            int(pairs["throttled_usec"]) / 1e6 if "throttled_usec" in pairs else int(pairs["throttled_time"]) / 1e9
        )
        return Quota(int(pairs["nr_periods"]), int(pairs["nr_throttled"]), seconds)
    except (OSError, KeyError, ValueError):
        return None


def heat_files(root: Path = ROOT) -> list[Path]:
    """The counters of thermal throttling, of cores and of packages."""
    return sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/*_throttle_count"))


@dataclass(frozen=True)
class ClockRates:
    """Where the processors' clock rates stand."""

    now: tuple[Path, ...]
    base_khz: int | None
    maximum_khz: int | None

    @property
    def limit_khz(self) -> float | None:
        """Below this the clock is throttled."""
        if self.base_khz:
            return COLD * self.base_khz
        return COLD_OF_MAXIMUM * self.maximum_khz if self.maximum_khz else None

    def highest_khz(self) -> int | None:
        """The rate of the fastest processor now: the one that works."""
        return max((rate for rate in map(read_number, self.now) if rate), default=None)


def clock_rates(root: Path = ROOT) -> ClockRates | None:
    """The clock rates of this machine, if it shows them."""
    folders = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
    if not folders:
        return None
    bases, tops = (
        [read_number(folder / name) for folder in folders] for name in ("base_frequency", "cpuinfo_max_freq")
    )
    now = tuple(folder / "scaling_cur_freq" for folder in folders)
    rates = ClockRates(now, max(filter(None, bases), default=None), max(filter(None, tops), default=None))
    return rates if rates.limit_khz and rates.highest_khz() else None


class ThrottleWatch:
    """Watches one trial for throttling."""

    def __init__(self, root: Path = ROOT) -> None:
        self.quotas = {file: read_quota(file) for file in quota_files(root)}
        self.heat = {file: read_number(file) for file in heat_files(root)}
        self.clocks = clock_rates(root)
        self.rates: list[int] = []

    @property
    def periodic(self) -> bool:
        """Whether there is something that only looking now and then shows."""
        return self.clocks is not None

    def begin(self) -> None:
        """Read the counters."""
        self.quotas = {file: read_quota(file) for file in self.quotas}
        self.heat = {file: read_number(file) for file in self.heat}
        self.rates = []

    def look(self) -> None:
        """Note the clock rate."""
        rate = self.clocks.highest_khz() if self.clocks else None
        if rate:
            self.rates.append(rate)

    def end(self) -> str | None:
        """What was seen since the beginning; "" for nothing, None if this machine shows nothing."""
        if not self.quotas and not self.heat and not self.clocks:
            return None
        return "; ".join(text for text in (self._held_back(), self._hot(), self._slowed()) if text)

    def _held_back(self) -> str:
        """The quota that bit most."""
        worst = Quota(0, 0, 0.0)
        for file, before in self.quotas.items():
            now = read_quota(file)
            if before and now:
                passed = now.periods - before.periods, now.throttled - before.throttled, now.seconds - before.seconds
                worst = max(worst, Quota(*passed), key=lambda quota: quota.throttled)
        if worst.throttled <= 0:
            return ""
        return (
            f"a CPU quota held the ranks back in {worst.throttled} of {worst.periods} periods ({worst.seconds:.2g} s)"
        )

    def _hot(self) -> str:
        counts = {file: read_number(file) for file in self.heat}
        events = [now - before for file, before in self.heat.items() if before is not None and (now := counts[file])]
        hot = [event for event in events if event > 0]
        return f"heat throttled the CPU {max(hot)} times" if hot else ""

    def _slowed(self) -> str:
        if self.clocks is None or len(self.rates) < FEWEST_RATES:
            return ""
        rate, limit = statistics.median(self.rates), self.clocks.limit_khz
        if limit is None or rate >= limit:
            return ""
        usual, of = (self.clocks.base_khz, "base") if self.clocks.base_khz else (self.clocks.maximum_khz, "highest")
        return f"the CPU ran at {rate / 1e6:.2f} GHz, its {of} rate is {(usual or 0) / 1e6:.2f} GHz"

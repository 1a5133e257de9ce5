"""Energy of the processors by RAPL, through Linux's powercap counters; wrapping counters are unrolled.

RAPL counts what whole packages and their memory took, other programs' share included: it is the machine's energy
during the trial, not the ranks' alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from steplab.core.record import Energy
from steplab.runner.instruments.throttling import ROOT, read_number


@dataclass(frozen=True)
class Zone:
    """One RAPL counter; it begins again at 0 after `range_uj`."""

    file: Path
    name: str
    range_uj: int


def rapl_zones(root: Path = ROOT) -> list[Zone]:
    """The counters that may be read and do not contain one another: packages, and memory where it has its own."""
    domains = []
    for folder in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        file, name = folder / "energy_uj", _name(folder / "name")
        span = read_number(folder / "max_energy_range_uj")
        # `core` and `uncore` are parts of their package, `psys` contains all.
        if (name.startswith("package") or name == "dram") and span and os.access(file, os.R_OK):
            domains.append(Zone(file, name, span))
    return domains


def _name(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def unrolled(before_uj: int, now_uj: int, range_uj: int) -> int:
    """What a counter advanced, if it wrapped at most once.

    >>> unrolled(10, 25, 100), unrolled(90, 5, 100)
    (15, 15)
    """
    return now_uj - before_uj if now_uj >= before_uj else now_uj - before_uj + range_uj


class RaplMeter:
    """Sums what the counters advance; `look` must come at least once per wrap (at 200 W some minutes)."""

    def __init__(self, root: Path = ROOT) -> None:
        self.zones = rapl_zones(root)
        self.last: dict[Zone, int] = {}
        self.total_uj = 0
        self.whole = False  # whether every look could read every counter

    def begin(self) -> None:
        """Start from here."""
        self.total_uj, self.last, self.whole = 0, {}, bool(self.zones)
        self.look()

    def look(self) -> None:
        """Add what was used since the last look."""
        for zone in self.zones:
            now = read_number(zone.file)
            if now is None:
                self.whole = False
                continue
            self.total_uj += unrolled(self.last.get(zone, now), now, zone.range_uj)
            self.last[zone] = now

    def end(self) -> float | None:
        """Joules since the beginning; None if they cannot be told."""
        self.look()
        return self.total_uj / 1e6 if self.whole else None


def energy(gpu_joules: float | None, cpu_joules: float | None, cpu_s: float, watts_per_cpu: float | None) -> Energy:
    """The energy of a trial with its provenance: the GPUs' if it ran on GPUs, else the processors'.

    Only if neither was measured and the study states the watts of a busy CPU is it estimated, from CPU seconds.

    >>> energy(None, None, 10.0, 5.0)
    Energy(joules=50.0, provenance='estimated')
    >>> energy(None, None, 10.0, None).provenance
    'none'
    """
    if gpu_joules is not None:
        return Energy(joules=gpu_joules, provenance="nvml")
    if cpu_joules is not None:
        return Energy(joules=cpu_joules, provenance="rapl")
    if watts_per_cpu is not None:
        return Energy(joules=cpu_s * watts_per_cpu, provenance="estimated")
    return Energy()

"""The data caches of this machine: sizes, and which CPUs share them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Cache:
    """A data cache of this machine: what one of it holds, and how many CPUs share one."""

    name: str
    size: int
    shared: int

    def capacity(self, threads: int) -> int:
        """Bytes that so many threads, each on a CPU of its own, have together."""
        return self.size * -(-threads // self.shared)


def data_caches(folder: Path = CACHES) -> list[Cache]:
    """The data caches as the system describes them, smallest first; none where it does not."""
    caches = []
    for index in sorted(folder.glob("index*")):
        try:
            kind, level, size, shared = (
                (index / name).read_text().strip() for name in ("type", "level", "size", "shared_cpu_list")
            )
            if kind != "Instruction":
                caches.append(Cache(f"L{int(level)}", _bytes(size), _count(shared)))
        except (OSError, ValueError):
            continue
    return sorted(caches, key=lambda cache: cache.size)


def _bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)


def _count(cpu_list: str) -> int:
    """How many CPUs a list such as `0-3,8` names."""
    spans = [part.partition("-") for part in cpu_list.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)

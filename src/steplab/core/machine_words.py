"""A machine in the words and units that people read, the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from steplab.core.units import count, size

WORDS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "host": ("host", str),
    "system": ("system", str),
    "cpu": ("CPU", str),
    "cores": ("cores", str),
    "cpus": ("CPUs", str),
    "mhz": ("clock", lambda mhz: f"{count(1e6 * mhz)}Hz"),
    "memory_bytes": ("memory", size),
    "gpus": ("GPUs", str),
    "python": ("Python", str),
}


def machine_rows(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is shown of a machine; what the system does not tell is left out.

    >>> machine_rows({"cpu": "EPYC", "mhz": 2596.1, "memory_bytes": 2**34, "gpus": ""})
    [('CPU', 'EPYC'), ('clock', '2.6 GHz'), ('memory', '16 GiB')]
    """
    return [(words, shown(value)) for field, (words, shown) in WORDS.items() if (value := machine.get(field))]

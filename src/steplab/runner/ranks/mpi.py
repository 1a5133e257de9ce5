"""Ranks as one MPI job of Open MPI: how `mpiexec` is called."""

from __future__ import annotations

import signal
from collections.abc import Sequence

RANK_VARIABLE = "OMPI_COMM_WORLD_RANK"
# PMIx, of which 3 and 4 have other names for it: reached over loopback alone.
VARIABLES = {"PMIX_MCA_ptl_tcp_if_include": "lo", "PMIX_MCA_ptl_base_if_include": "lo"}


def mpiexec(ranks: Sequence[int], lines: Sequence[str]) -> list[str]:
    """The command that the ranks' own one is added to; the lines say where they are and how they speak."""
    return [
        # No binding: how many threads a rank has, and where, is not the launcher's to say. Ranks fill one host after
        # the other, as placements do.
        "mpiexec", "-n", str(len(ranks)), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
        "--map-by", "slot", *lines, *parameter("btl_vader_single_copy_mechanism", "none"),
        # A waiting rank gives its core away: on a busy machine the slowest tenth of exchanges took 20 instead of
        # 100 ms.
        *parameter("mpi_yield_when_idle", "1"),
        # A rank dies with its launcher, even before it can ask for that itself.
        "setpriv", "--pdeathsig", "KILL",
    ]  # fmt: skip


def parameter(name: str, value: str) -> list[str]:
    """A setting of Open MPI."""
    return ["--mca", name, value]


def meaning(code: int) -> int:
    """Of the exit code of `mpiexec`, which reports a rank's death by a signal as a shell does.

    >>> meaning(137), meaning(3), meaning(255)
    (-9, 3, 255)
    """
    return 128 - code if 128 < code < 128 + signal.NSIG else code

"""How fast the lines of a cluster in a box are: token buckets at both ends, and a delay where the kernel has it.

A bucket lets a burst through at full speed, so messages of up to that size are not slowed down by it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from steplab.core.errors import EnvironmentFault
from steplab.core.placement import UNSHAPED, bits_per_second
from steplab.runner.nets.net import Net, NetHost

BURST_BYTES = 256 << 10  # at 1 Gbit/s; less delivers less than the rate
SMALLEST_BURST, LARGEST_BURST = 32 << 10, 4 << 20
QUEUE = "20ms"  # longest time in a queue before packets are dropped, about as in a switch
_libc = ctypes.CDLL(None, use_errno=True)


def shape(net: Net, rate: str) -> None:
    """Give all lines of a net this rate, and its delay."""
    for host in net.hosts:
        _tc(net, host, _queues("eth0", rate, net.delay))
    ports = [line for number in range(len(net.hosts)) for line in _queues(f"port{number}", rate, "")]
    _tc(net, None, ports)


def _queues(device: str, rate: str, delay: str) -> list[str]:
    """What `tc` is told for one end of a line; an empty queue first, so that there is one to be replaced."""
    lines = [f"qdisc replace dev {device} root pfifo", f"qdisc del dev {device} root"]
    if delay:
        lines.append(f"qdisc add dev {device} root handle 1: netem delay {delay} limit 100000")
    if rate != UNSHAPED:
        where = "parent 1:" if delay else "root"
        lines.append(f"qdisc add dev {device} {where} handle 2: tbf rate {rate} burst {burst(rate)} latency {QUEUE}")
    return lines


def burst(rate: str) -> int:
    """Bytes that a line lets through at once, in proportion to its rate.

    >>> burst("1gbit"), burst("100mbit")
    (262144, 32768)
    """
    return int(min(LARGEST_BURST, max(SMALLEST_BURST, BURST_BYTES * bits_per_second(rate) / 1e9)))


def _tc(net: Net, host: NetHost | None, lines: Sequence[str]) -> None:
    try:
        with net.inside(host) as descriptors:
            done = subprocess.run(
                ["tc", "-batch", "-"], input="\n".join(lines), text=True, capture_output=True, check=False,
                preexec_fn=functools.partial(enter, descriptors),
            )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise EnvironmentFault(f"the lines of the net {net.name!r} cannot be shaped ({reason})") from None
    if done.returncode:
        raise EnvironmentFault(_refusal(net, done.stderr))


def _refusal(net: Net, errors: str) -> str:
    if net.delay and "qdisc kind is unknown" in errors:
        return "this kernel has no netem, so lines cannot be delayed, only slowed down; leave the delay out"
    return f"the lines of the net {net.name!r} cannot be shaped: `tc` says: {(errors.splitlines() or ['nothing'])[0]}"


def enter(descriptors: Sequence[tuple[int, int]]) -> None:
    """Put the calling process into namespaces; for a child between fork and exec."""
    here = Path.cwd()
    for kind, descriptor in descriptors:
        if _libc.setns(descriptor, kind):
            raise OSError(ctypes.get_errno(), "a process cannot enter a host of the net")
    os.chdir(here)  # a mount namespace begins at its root

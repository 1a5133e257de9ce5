"""A cluster in a box: hosts made of namespaces on this machine, for trials with `placement = "net:NAME"`."""

from __future__ import annotations

from dataclasses import dataclass

from steplab.core.placement import UNSHAPED
from steplab.runner.nets import making
from steplab.runner.nets import net as known
from steplab.runner.nets.net import Net

__all__ = ["NetInfo", "net_down", "net_up", "nets"]


@dataclass(frozen=True)
class NetInfo:
    """A net that is up: its hosts by name, and how fast their lines are."""

    name: str
    hosts: tuple[str, ...]
    addresses: tuple[str, ...]
    rate: str
    delay: str
    owner: int  # the process that it ends with


def net_up(name: str, hosts: int = 2, rate: str = UNSHAPED, delay: str = "") -> NetInfo:
    """Make a net of so many hosts; it stays until `net_down`.

    Args:
        name: Of lower-case letters, digits and dashes; its hosts are called NAME-1, NAME-2 and so on.
        hosts: How many.
        rate: Of each host's line in each direction, such as `1gbit`; a trial's factor `rate` overrides it.
        delay: Of each packet that a host sends, such as `1ms`; needs a kernel with netem.
    """
    return _info(making.up(name, hosts, rate, delay))


def net_down(name: str) -> NetInfo:
    """End a net, and every process in it."""
    return _info(making.down(name))


def nets() -> list[NetInfo]:
    """The nets that are up; what killed ones left is removed."""
    known.sweep()
    return [_info(net) for net in known.nets()]


def _info(net: Net) -> NetInfo:
    hosts, addresses = tuple(host.name for host in net.hosts), tuple(host.address for host in net.hosts)
    return NetInfo(net.name, hosts, addresses, net.rate, net.delay, net.pid)

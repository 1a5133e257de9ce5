"""A host of a cluster in a box, as a launcher enters it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from steplab.core.errors import EnvironmentFault, InputError
from steplab.runner.nets.net import Net, NetHost, find
from steplab.runner.ranks.private_network import PrivateNetwork


@contextlib.contextmanager
def inside(net_name: str, name: str) -> Iterator[PrivateNetwork]:
    """The namespaces of a net's host, open for entering."""
    net, host = net_and_host(net_name, name)
    with contextlib.ExitStack() as opened:
        try:
            descriptors = opened.enter_context(net.inside(host))
        except OSError as error:
            raise EnvironmentFault(f"the net {net.name!r} is gone ({error.strerror})") from None
        yield PrivateNetwork(descriptors)


def net_and_host(net_name: str, name: str) -> tuple[Net, NetHost]:
    """A net's host of that name."""
    try:
        net = find(net_name)
    except InputError as error:
        raise EnvironmentFault(str(error)) from None  # a record says so, not the end of the study
    host = next((host for host in net.hosts if host.name == name), None)
    if host is None:
        raise EnvironmentFault(f"the net {net.name!r} has no host {name!r} any more")
    return net, host

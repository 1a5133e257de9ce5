"""A few hosts that `ssh` reaches, as a campaign's cluster."""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import Mapping, Sequence

from steplab.core.errors import EnvironmentFault
from steplab.core.resolution import Resolved
from steplab.runner.ranks import ssh
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.launchers import LOCAL
from steplab.runner.ranks.members import Member
from steplab.runner.ranks.site import Host, Site, launcher_there, over_hosts
from steplab.runner.ranks.ssh import Looked
from steplab_worker.transport import joined

LAUNCHERS = {LOCAL: "ssh", "mpiexec": "mpiexec_ssh"}


class SshHosts:
    """Hosts by their ssh names. Each is looked at before a group is started: one that has gone is not used again."""

    def __init__(self, names: Sequence[str], pythons: Mapping[str, str], programs: Sequence[str] = ()) -> None:
        self.names, self.pythons, self.programs = tuple(names), pythons, tuple(programs)

    def check(self, nodes: int) -> None:
        """EnvironmentFault says which host cannot be used, if so many are needed at once."""
        looked = [ssh.look(name, self.pythons, self.programs) for name in self.names]
        if len(looked) < nodes:
            raise EnvironmentFault(f"trials need {nodes} nodes, but [executor.hosts] names {len(looked)}")
        for host in looked:
            expect_environments(host)
        expect_different(looked)
        listen_address(looked)

    def locate(self, key: GroupKey, members: Sequence[Member]) -> Site:
        """On the first hosts that answer."""
        launcher = launcher_there(key, LAUNCHERS)
        looked, lost = self._answering(key.nodes)
        if len(looked) < key.nodes:
            there = f"{len(self.names) - len(lost)} of the {len(self.names)} hosts answer, {key.nodes} are needed"
            raise EnvironmentFault(f"{there}: {'; '.join(lost)}")
        hosts = [Host(host.host, host.address, host.name) for host in looked]
        return over_hosts(key, members, hosts, launcher, f"tcp:{joined(listen_address(looked), 0)}")

    def _answering(self, nodes: int) -> tuple[list[Looked], list[str]]:
        """As many hosts as are needed, and what is wrong with those before them."""
        looked: list[Looked] = []
        lost: list[str] = []
        for name in self.names:
            if len(looked) == nodes:
                break
            try:
                looked.append(ssh.look(name, {}))
            except EnvironmentFault as fault:
                lost.append(str(fault))
        return looked, lost

    def prepare(self, resolved: Resolved) -> None:
        """There is nothing to do."""

    def close(self) -> None:
        """There is nothing to undo."""


def expect_environments(host: Looked) -> None:
    """Say which environment or program a host lacks."""
    if host.missing:
        how = f"make it there with `steplab env create {host.missing[0]}`, or share the folder of STEPLAB_HOME"
        raise EnvironmentFault(f"the host {host.name!r} has no environment {host.missing[0]!r}; {how}")
    if host.lacking:
        raise EnvironmentFault(f"the host {host.name!r} has no program `{host.lacking[0]}`")


def expect_different(looked: Sequence[Looked]) -> None:
    """Two names of one host would count it twice; a loopback address is no way between two hosts."""
    names = Counter(host.host for host in looked)
    twice = [host.name for host in looked if names[host.host] > 1]
    if twice:
        raise EnvironmentFault(
            f"{' and '.join(map(repr, twice))} are one host, which calls itself {_same(looked, twice)}"
        )
    local = [host for host in looked if ipaddress.ip_address(host.address).is_loopback]
    if local and len(looked) > 1:
        what = f"the host {local[0].name!r} is reached at {local[0].address}, where no other host can reach it"
        raise EnvironmentFault(f"{what}; name it as the others know it")


def _same(looked: Sequence[Looked], twice: Sequence[str]) -> str:
    return repr(next(host.host for host in looked if host.name == twice[0]))


def listen_address(looked: Sequence[Looked]) -> str:
    """This machine's address as the first host sees it, if it is one of its own."""
    seen = looked[0].seen
    try:
        family = socket.AF_INET6 if ":" in seen else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((seen, 0))
    except OSError:
        what = f"the host {looked[0].name!r} sees this machine at {seen}, which is none of its own addresses"
        raise EnvironmentFault(f"{what}, so ranks there could not speak to it") from None
    return seen

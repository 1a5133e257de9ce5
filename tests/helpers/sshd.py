"""Real ssh servers in the hosts of a cluster in a box, for tests: started and stopped here, with keys of their own."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from steplab.runner.nets.net import Net, NetHost
from steplab.runner.nets.shaping import enter

CONFIG = """
{hosts}
Host *
    SendEnv STEPLAB_TEST_MARK
    User {user}
    IdentityFile {folder}/key
    IdentitiesOnly yes
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
"""
SERVER = """
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv STEPLAB_TEST_MARK
"""
# A laboratory outside of the net, as a test is, has programs that speak from the net's first host.
WRAPPER = """#!/bin/sh
exec nsenter --net=/proc/{owner}/fd/{first} /usr/bin/ssh -F {folder}/config "$@"
"""
MPIEXEC = """#!/bin/sh
exec nsenter --net=/proc/{owner}/fd/{first} /usr/bin/mpiexec "$@"
"""
PATIENCE_S = 180.0
NEEDS_ROOT = "a server of ssh needs the rights of root: for /run/sshd, and to become the user who logs in"


def inside(net: Net, host: NetHost, command: Sequence[object], **more: object) -> subprocess.Popen[str]:
    """A command in a host of a net."""
    with net.inside(host) as descriptors:
        return subprocess.Popen(
            list(map(str, command)), preexec_fn=functools.partial(enter, descriptors), text=True, **more
        )  # type: ignore[call-overload,no-any-return]


@dataclass
class Servers:
    """The ssh servers of a net's hosts but the first, which is the laboratory's."""

    net: Net
    folder: Path
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The hosts that can be logged in to."""
        return [host.name for host in self.net.hosts[1:]]

    @property
    def variables(self) -> Mapping[str, str]:
        """Of a laboratory: its `ssh` has the keys, and no settings of the user."""
        return {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}

    def start(self) -> None:
        """Start all, and wait until they answer."""
        Path("/run/sshd").mkdir(exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "key"], check=True)
        for name, text in (("config", CONFIG), ("server", SERVER), ("ssh", WRAPPER), ("mpiexec", MPIEXEC)):
            (self.folder / name).write_text(text.format(**self._words()))
        for name in ("ssh", "mpiexec"):
            (self.folder / name).chmod(0o755)
        for host in self.net.hosts[1:]:
            command = ["/usr/sbin/sshd", "-D", "-e", "-f", self.folder / "server"]
            with (self.folder / f"{host.name}.log").open("w") as log:
                self.running[host.name] = inside(self.net, host, command, stderr=log, start_new_session=True)
        for name in self.names:
            self._await(name)

    def _words(self) -> dict[str, object]:
        hosts = "\n".join(f"Host {host.name}\n    HostName {host.address}" for host in self.net.hosts)
        user = pwd.getpwuid(os.getuid()).pw_name
        return {
            "folder": self.folder,
            "user": user,
            "hosts": hosts,
            "owner": self.net.pid,
            "first": self.net.hosts[0].net,
        }

    def _await(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        log = self.folder / f"{name}.log"
        while "Server listening" not in log.read_text():
            assert self.running[name].poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the ssh server does not start"
            time.sleep(0.05)

    def switch_off(self, name: str) -> None:
        """As if its cable were pulled: the host is silent, and nobody is told."""
        self._link(name, "down")

    def switch_on(self, name: str) -> None:
        """Put the cable back."""
        self._link(name, "up")

    def _link(self, name: str, state: str) -> None:
        host = next(host for host in self.net.hosts if host.name == name)
        assert inside(self.net, host, ["ip", "link", "set", "eth0", state]).wait() == 0

    def stop(self) -> None:
        """Stop all, with whatever they have started: a connection's process has a session of its own."""
        for process in self.running.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                server = psutil.Process(process.pid)
                for each in (server, *server.children(recursive=True)):
                    each.kill()
            process.wait()


@contextlib.contextmanager
def servers(net: Net, folder: Path) -> Iterator[Servers]:
    """Running servers."""
    there = Servers(net, folder)
    try:
        there.start()
        yield there
    finally:
        there.stop()

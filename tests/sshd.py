"""Real ssh servers in the hosts of a cluster in a box, for tests: started and stopped here, with keys of their own."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steplab.runner.nets.net import Net, NetHost
from steplab.runner.nets.shaping import enter

CONFIG = """
Host *
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
"""
WRAPPER = """#!/bin/sh
exec /usr/bin/ssh -F {folder}/config "$@"
"""
PATIENCE_S = 60.0


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
        for name, text in (("config", CONFIG), ("server", SERVER), ("ssh", WRAPPER)):
            user = os.environ.get("USER", "root")
            (self.folder / name).write_text(text.format(folder=self.folder, user=user))
        (self.folder / "ssh").chmod(0o755)
        for host in self.net.hosts[1:]:
            command = ["/usr/sbin/sshd", "-D", "-e", "-f", self.folder / "server"]
            with (self.folder / f"{host.name}.log").open("w") as log:
                self.running[host.name] = inside(self.net, host, command, stderr=log, start_new_session=True)
        for name in self.names:
            self._await(name)

    def _await(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        log = self.folder / f"{name}.log"
        while "Server listening" not in log.read_text():
            assert self.running[name].poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the ssh server does not start"
            time.sleep(0.05)

    def switch_off(self, name: str) -> None:
        """As if the plug were pulled: every process of the host stops for ever, and its line is silent."""
        host = next(host for host in self.net.hosts if host.name == name)
        subprocess.run(["true"], check=True)
        command = ["ip", "link", "set", "eth0", "down"]
        inside(self.net, host, command).wait()

    def stop(self) -> None:
        """Stop all, with whatever they have started."""
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
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

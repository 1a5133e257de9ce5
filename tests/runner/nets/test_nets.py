"""A cluster in a box: hosts that know each other and nobody else, lines of a rate, nothing left behind."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from steplab.core.errors import EnvironmentFault, InputError
from steplab.core.resolution import resolve
from steplab.runner.box import Box
from steplab.runner.nets import making
from steplab.runner.nets.net import Net, NetHost, find, folder, nets, sweep
from steplab.runner.nets.shaping import enter, shape

STEPLAB = Path(sys.executable).with_name("steplab")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def net(home: Path, no_orphans: Callable[[], None]) -> Iterator[Net]:
    net = making.up("box", 2, "1gbit")
    yield net
    if net in nets():
        making.down("box")


def said(net: Net, host: NetHost | None, *command: str) -> str:
    """What a command in a host prints."""
    with net.inside(host) as descriptors:
        entering = functools.partial(enter, descriptors)
        return subprocess.run(command, preexec_fn=entering, capture_output=True, text=True, check=True).stdout


def rates(net: Net) -> set[str]:
    """The rates of both ends of all lines."""
    ends = [said(net, host, "tc", "qdisc", "show", "dev", "eth0") for host in net.hosts]
    ports = [said(net, None, "tc", "qdisc", "show", "dev", f"port{number}") for number in range(len(net.hosts))]
    return {rate[1] if (rate := re.search(r"rate (\w+)", text)) else "unshaped" for text in (*ends, *ports)}


def test_each_host_has_its_own_name_and_address_and_knows_the_others(net: Net) -> None:
    for host in net.hosts:
        assert said(net, host, "hostname").strip() == host.name
        assert f" {host.address}/24 " in said(net, host, "ip", "-brief", "address", "show", "eth0")
        assert "10.77.0.1 box-1\n10.77.0.2 box-2" in said(net, host, "cat", "/etc/hosts")


def test_a_process_in_a_host_stays_in_its_folder(net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said(net, net.hosts[0], "pwd").strip() == str(tmp_path)


SPEAK = """
import socket, sys
if sys.argv[1] == "listen":
    server = socket.create_server((sys.argv[2], 7000))
    print("listening", flush=True)
    print(server.accept()[0].recv(9).decode())
else:
    with socket.create_connection((sys.argv[2], 7000), 10) as line:
        line.sendall(socket.gethostname().encode())
"""


def test_hosts_reach_each_other_by_name(net: Net) -> None:
    first, second = net.hosts
    with net.inside(first) as descriptors:
        command = [sys.executable, "-c", SPEAK, "listen", first.address]
        listener = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, preexec_fn=functools.partial(enter, descriptors)
        )
    assert listener.stdout is not None
    assert listener.stdout.readline() == "listening\n"
    said(net, second, sys.executable, "-c", SPEAK, "speak", first.name)
    assert listener.communicate(timeout=180)[0].strip() == second.name


def test_no_way_leads_out_of_the_net(net: Net) -> None:
    routes = said(net, net.hosts[0], "ip", "route").splitlines()
    assert [route.split()[0] for route in routes] == ["10.77.0.0/24"]


def test_the_machine_itself_sees_nothing_of_it(net: Net) -> None:
    here = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
    assert "port0" not in here
    assert "br0" not in here


def test_lines_have_the_rate_at_both_ends_and_get_another_one(net: Net) -> None:
    assert rates(net) == {"1Gbit"}
    shape(net, "100mbit")
    assert rates(net) == {"100Mbit"}
    shape(net, "unshaped")
    assert rates(net) == {"unshaped"}


def test_a_trial_gets_its_rate_and_the_net_its_own_back(net: Net) -> None:
    box = Box()
    box.prepare(resolve({"workers": 2, "placement": "net:box", "rate": "100mbit"}))
    assert rates(net) == {"100Mbit"}
    box.prepare(resolve({"workers": 2, "placement": "net:box"}))
    assert rates(net) == {"1Gbit"}
    box.prepare(resolve({"workers": 2, "placement": "net:box", "rate": "unshaped"}))
    box.close()
    assert rates(net) == {"1Gbit"}


def test_down_ends_what_runs_in_it(net: Net) -> None:
    with net.inside(net.hosts[0]) as descriptors:
        process = subprocess.Popen(["sleep", "1000"], preexec_fn=functools.partial(enter, descriptors))
    making.down("box")
    assert process.wait(180) == -signal.SIGKILL
    assert nets() == []
    assert list(folder().iterdir()) == []


def test_with_its_owner_killed_the_net_is_gone(net: Net) -> None:
    os.kill(net.pid, signal.SIGKILL)
    deadline = time.monotonic() + 180
    while nets():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert list(folder().iterdir()) == []
    with pytest.raises(InputError, match="there is no net 'box'"):
        find("net:box")
    with pytest.raises(EnvironmentFault, match="there is no net 'box'"):  # a record says so
        Box().prepare(resolve({"workers": 2, "placement": "net:box"}))


def test_with_its_note_removed_the_owner_ends(net: Net, no_orphans: Callable[..., None]) -> None:
    (folder() / "box.json").unlink()
    no_orphans()


def test_a_name_is_taken_once(net: Net) -> None:
    with pytest.raises(InputError, match="there is a net 'box' already; end it with `steplab net down box`"):
        making.up("box", 2)


def test_a_delay_is_there_or_the_kernel_is_named(no_orphans: Callable[[], None]) -> None:
    try:
        net = making.up("late", 2, "unshaped", "5ms")
    except EnvironmentFault as fault:
        assert "this kernel has no netem" in str(fault)
        assert list(folder().iterdir()) == []
    else:
        assert "delay 5ms" in said(net, net.hosts[0], "tc", "qdisc", "show", "dev", "eth0")
        making.down("late")


def test_the_nets_owner_does_not_wait_for_a_caller_who_is_killed(home: Path, no_orphans: Callable[..., None]) -> None:
    """Killed at some moment `net up` has made a net that is listed, or nothing."""
    moments = random.Random(4)
    for kill in range(4):
        process = subprocess.Popen([STEPLAB, "net", "up", "box"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if kill % 2:  # while the owner makes the net or promises to keep it, however slow the machine
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            until(children.read_text)
            time.sleep(0.0 if kill == 1 else moments.uniform(0.0, 0.3))
        else:
            time.sleep(moments.uniform(0.1, 1.5))
        process.kill()
        process.wait()
        until(lambda: nets() or not at_work(home))
        if nets():
            making.down("box")
    no_orphans()
    sweep()
    assert list(folder().iterdir() if folder().exists() else ()) == []


def at_work(home: Path) -> list[int]:
    """All processes of this home but the test's own."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get("STEPLAB_HOME") == str(home):
                found.append(process.pid)
    return found


def until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + 180
    while not look():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("A",), "'A' is no name of a net"),
        (("a", "--hosts", "0"), "a net of 0 hosts cannot be made; allowed: 1 to 64"),
        (("a", "--rate", "fast"), "must be 'unshaped' or a rate such as"),
        (("a", "--delay", "soon"), "the delay 'soon' must be a time such as '1ms'"),
    ],
)
def test_a_wrong_wish_is_one_sentence(arguments: tuple[str, ...], sentence: str, steplab: Callable[..., Any]) -> None:
    ran = steplab("net", "up", *arguments)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert sentence in ran.err


FORBIDDEN = 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$0" net up box'


def test_without_the_rights_there_is_one_sentence() -> None:
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", FORBIDDEN, str(STEPLAB)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("steplab: the net cannot be made: this system allows no namespaces to this user")
    assert len(done.stderr.splitlines()) == 1


def test_without_the_commands_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"`ip` cannot be started .* Debian has it in iproute2"):
        making.up("box", 2)

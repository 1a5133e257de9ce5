"""Written aside: files and folders take their name only when they are whole, and what killed processes left is swept.

What is being written stands beside its final place under a name that tells whose it is:
.<name>~<host>~<process>~<start>-<namespace>~<random>.tmp. One move brings it to its place. A process that is killed
leaves it there; whoever writes to the same place next sweeps it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from steplab.core.errors import StoreError

ABANDONED_S = 24 * 3600.0  # what another host, of whose processes nothing is known, has not touched for so long
_LONGEST = 100  # bytes of the final name in the name aside; a file's name has 255 at most
_OWNER = r"(?P<host>[^~]+)~(?P<pid>\d{1,9})~(?P<start>\d*)-(?P<namespace>\d*)"
_NAME = re.compile(rf"\..+~{_OWNER}~[0-9a-f]{{8}}\.tmp", re.DOTALL)


@contextlib.contextmanager
def folder(path: Path) -> Iterator[Path]:
    """An empty folder beside its final place; gone afterwards unless it was moved."""
    path = path.absolute()
    sweep(path.parent)
    place = path.with_name(name_aside(path.name))
    try:
        place.mkdir(parents=True)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A folder for this user alone in the temporary directory, as long as it is needed."""
    temporary = Path(tempfile.gettempdir())
    sweep(temporary)
    place = temporary / name_aside(f"steplab-{name}")
    try:
        place.mkdir(mode=0o700)
    except OSError as error:
        raise StoreError(f"{temporary}: cannot be written ({error.strerror})") from None
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def sweep(place: Path) -> None:
    """Remove what this user's killed processes left aside in a folder; a living one's, here or elsewhere, stays."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_abandoned(Path(entry.path))


def _remove_abandoned(path: Path) -> None:
    """Remove one file or folder if its owner is gone. A link is nothing that we wrote, and is never followed."""
    about = path.lstat()
    ours = about.st_uid == os.getuid() and (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode))
    if not ours or not abandoned(path.name, lambda: _last_touched(path)):
        return
    if stat.S_ISDIR(about.st_mode):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def abandoned(name: str, last_touched: Callable[[], float]) -> bool:
    """Whether a name is one aside whose process is gone; of processes that cannot be seen from here only age tells."""
    owner = _NAME.fullmatch(name)
    if owner is None:
        return False
    if (owner["host"], owner["namespace"]) == (_host(), _namespace()) and owner["start"]:
        return _start(int(owner["pid"])) != owner["start"]
    return time.time() - last_touched() > ABANDONED_S


def _last_touched(path: Path) -> float:
    """When a file, or anything in a folder, was last written to."""
    times = [path.lstat().st_mtime]
    for root, _, files in os.walk(path):
        times += [(Path(root) / name).lstat().st_mtime for name in (".", *files)]
    return max(times)


def name_aside(name: str) -> str:
    """The name under which a file or folder of this process stands until it is whole."""
    short = os.fsdecode(os.fsencode(name)[:_LONGEST])
    owner = f"{_host()}~{os.getpid()}~{_start(os.getpid())}-{_namespace()}"
    return f".{short}~{owner}~{uuid.uuid4().hex[:8]}.tmp"


def _host() -> str:
    return socket.gethostname().replace("~", "-").replace("/", "-") or "unknown"


@cache
def _namespace() -> str:
    """Containers on one host do not see each other's processes; empty where the system has no such thing."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _start(pid: int) -> str:
    """When a process began, in its kernel's ticks: numbers of processes are used again. Empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]  # man 5 proc
    except (OSError, IndexError):
        return ""

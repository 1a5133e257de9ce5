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
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from steplab.core.errors import StoreError

ABANDONED_S = 24 * 3600.0  # what another host, of whose processes nothing is known, has not touched for so long
_LONGEST = 100  # bytes of the final name in the name aside; a file's name has 255 at most
_OWNER = r"(?P<host>[^~]+)~(?P<pid>\d{1,9})~(?P<start>\d*)-(?P<namespace>\d*)"
_NAME = re.compile(rf"\..+~{_OWNER}~[0-9a-f]{{8}}\.tmp", re.DOTALL)


@contextlib.contextmanager
def file(path: Path, content: bytes) -> Iterator[Path]:
    """A file beside its final place, the content safely on disk; gone afterwards unless it was moved."""
    place = _beside(path)
    try:
        with place.open("xb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        yield place
    finally:
        place.unlink(missing_ok=True)


@contextlib.contextmanager
def folder(path: Path) -> Iterator[Path]:
    """An empty folder beside its final place; gone afterwards unless it was moved."""
    sweep(path.absolute().parent)
    place = _beside(path.absolute())
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
    place = _beside(temporary / f"steplab-{name}")
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
            owner = _NAME.fullmatch(entry.name)
            if owner:
                with contextlib.suppress(OSError):
                    _remove_abandoned(Path(entry.path), owner)


def _remove_abandoned(path: Path, owner: re.Match[str]) -> None:
    """Remove one file or folder if its owner is gone. A link is nothing that we wrote, and is never followed."""
    about = path.lstat()
    ours = about.st_uid == os.getuid() and (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode))
    if not ours or not _abandoned(path, owner):
        return
    if stat.S_ISDIR(about.st_mode):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _abandoned(path: Path, owner: re.Match[str]) -> bool:
    """Whether the process that wrote it is gone; of processes that cannot be seen from here only age tells."""
    here = (owner["host"], owner["namespace"]) == (_host(), _namespace()) and owner["start"]
    if here:
        return _start(int(owner["pid"])) != owner["start"]
    return time.time() - _last_touched(path) > ABANDONED_S


def _last_touched(path: Path) -> float:
    """When a file, or anything in a folder, was last written to."""
    times = [path.lstat().st_mtime]
    for root, _, files in os.walk(path):
        times += [(Path(root) / name).lstat().st_mtime for name in (".", *files)]
    return max(times)


def _beside(path: Path) -> Path:
    short = os.fsdecode(os.fsencode(path.name)[:_LONGEST])
    owner = f"{_host()}~{os.getpid()}~{_start(os.getpid())}-{_namespace()}"
    return path.with_name(f".{short}~{owner}~{uuid.uuid4().hex[:8]}.tmp")


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

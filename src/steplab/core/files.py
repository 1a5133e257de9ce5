"""Reading files that may be anything: only regular ones are read, and never more of them than was asked for.

A FIFO in the place of a file would hang whoever opens it, `/dev/zero` never ends. Every reader of the laboratory that
opens a file by a name that it did not make itself goes through here.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from steplab.core.errors import InputError

# Nothing waits for the other end of a FIFO, and a terminal does not become ours.
OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


def readable(name: str) -> str:
    r"""Text with the name of a file in it, fit for any document: what is not UTF-8 is written as `\xff`.

    >>> print(readable("caf\udce9"))
    caf\xe9
    """
    return re.sub("[\ud800-\udfff]", lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", name)


def expanded(text: str | Path) -> Path:
    """A path with the home directory in the place of `~`."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise InputError("no home directory is known for that user", where=str(text)) from None


def real(path: Path) -> Path:
    """Where a path leads, absolute; of links that lead in a circle the path itself."""
    return Path(os.path.realpath(path))


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises OSError where the system says no (`FileNotFoundError`, `IsADirectoryError`, `PermissionError`), and
    InputError, with the path as its `where`, if it is another kind of file or too large. A link is followed: the path
    is the user's own.
    """
    expect_regular(path.stat().st_mode, str(path))  # before it is opened: opening a device may do something
    return read_opened(os.open(path, OPEN), limit, str(path))


def open_regular(path: Path) -> BinaryIO:
    """A regular file to be read piece by piece; what it may raise is what `read_regular` does."""
    expect_regular(path.stat().st_mode, str(path))
    file = os.fdopen(os.open(path, OPEN), "rb")
    try:
        expect_regular(os.fstat(file.fileno()).st_mode, str(path))
    except (OSError, InputError):
        file.close()
        raise
    return file


def read_opened(descriptor: int, limit: int, where: str) -> bytes:
    """The same from an open descriptor, which is closed."""
    try:
        status = os.fstat(descriptor)
        expect_regular(status.st_mode, where)
        # A file may grow meanwhile, and those under /proc have no size: the limit holds for what is read, too.
        content = _read(descriptor, status.st_size, limit) if status.st_size <= limit else None
    finally:
        os.close(descriptor)
    if content is None or len(content) > limit:
        raise InputError("is too large", where=where, hint=f"allowed: up to {limit:,} bytes")
    return content


def expect_regular(mode: int, where: str) -> None:
    """Say so if a file of that mode is none that can be read to its end."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), where)
    if not stat.S_ISREG(mode):
        raise InputError(f"is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file", where=where)


def _read(descriptor: int, expected: int, limit: int) -> bytes:
    """Up to the end, or a piece beyond the limit; one piece where the file has the size that it says."""
    content = os.read(descriptor, expected + 1)
    if 0 < len(content) == expected:
        return content
    while len(content) <= limit and (piece := os.read(descriptor, _PIECE)):
        content += piece
    return content

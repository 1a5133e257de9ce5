"""A directory held open: whatever is done in it, by name, stays in it.

A study's folder may come from a stranger. Every name in it is opened, written, moved and removed relative to the open
directory and never through a symbolic link, so neither a link that lies there nor one that appears meanwhile leads
anything out of the folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self

from steplab.core import atomic
from steplab.core.errors import InputError
from steplab.core.files import OPEN, expect_regular, read_opened

NO_LINKS = "steplab follows no links in a study's folder"


@dataclass(frozen=True)
class Entry:
    """What lies in a directory under a name; a link is a link, not what it points to."""

    name: str
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        """Whether it is a real directory."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def age_s(self) -> float:
        """Seconds since it was changed."""
        return time.time() - self.status.st_mtime


class Directory:
    """An open directory; `with` closes it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor, self.path = descriptor, path
        self._shown = str(path)  # made once: paths are slow, and records many

    @classmethod
    def at(cls, path: Path) -> Self:
        """The directory at a path of the user's own, in which links are followed."""
        return cls(os.open(path, OPEN | os.O_DIRECTORY), path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def inner(self, name: str) -> Directory:
        """A directory in this one."""
        if stat.S_ISLNK(self.status(name).st_mode):
            raise InputError("is a symbolic link", where=self.where(name), hint=NO_LINKS)
        descriptor = os.open(name, OPEN | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.descriptor)
        return Directory(descriptor, self.path / name)

    def make(self, name: str) -> None:
        """Make a directory in this one unless something of that name is there."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=self.descriptor)

    def status(self, name: str) -> os.stat_result:
        """What the system knows of a name, of a link itself."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def where(self, name: str) -> str:
        """How a person calls what has a name here."""
        return f"{self._shown}/{name}"

    def names(self) -> list[str]:
        """The names of all that lies here, in no order."""
        with os.scandir(self.descriptor) as entries:
            return [entry.name for entry in entries]

    def entries(self) -> Iterator[Entry]:
        """All that lies here, in no order; what goes away meanwhile is left out."""
        with os.scandir(self.descriptor) as names:
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    yield Entry(name.name, name.stat(follow_symlinks=False))

    def read(self, name: str, limit: int) -> bytes:
        """The content of a regular file of at most `limit` bytes."""
        where = self.where(name)
        expect_regular(self.status(name).st_mode, where)
        return read_opened(os.open(name, OPEN | os.O_NOFOLLOW, dir_fd=self.descriptor), limit, where)

    def create(self, name: str, content: bytes) -> None:
        """Write a new file; FileExistsError if there is one."""
        with self._new(name) as file:
            file.write(content)

    def _new(self, name: str, mode: int = 0o666) -> BinaryIO:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(name, flags, mode, dir_fd=self.descriptor), "wb")

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all, in the place of what had its name."""
        with self._aside(name, content) as temporary:
            os.replace(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def must_be_writable(self) -> None:
        """Say so if nothing can be written here."""
        with self._aside("probe", b""):
            pass

    def write_first(self, name: str, content: bytes, mode: int = 0o666) -> bool:
        """Write a file whole or not at all; False if there is one of that name, which stays."""
        here = self.descriptor
        with self._aside(name, content, mode) as temporary:
            try:
                os.link(temporary, name, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                    raise
                # No hard links on this file system: a rename, which lets the last one stay, is as atomic.
                os.rename(temporary, name, src_dir_fd=here, dst_dir_fd=here)
        return True

    @contextlib.contextmanager
    def _aside(self, name: str, content: bytes, mode: int = 0o666) -> Iterator[str]:
        """A temporary file beside the final one, with the content safely on disk; gone afterwards."""
        temporary = atomic.name_aside(name)
        try:
            with self._new(temporary, mode) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with contextlib.suppress(FileNotFoundError):
                self.remove(temporary)

    def sweep(self) -> None:
        """Remove files that this user's killed processes left half-written."""
        for entry in list(self.entries()):
            own = stat.S_ISREG(entry.status.st_mode) and entry.status.st_uid == os.getuid()
            if own and atomic.abandoned(entry.name, partial(float, entry.status.st_mtime)):
                with contextlib.suppress(OSError):
                    self.remove(entry.name)

    def move(self, name: str, to: Directory, new_name: str) -> None:
        """Move whatever has a name to another directory; of a link, the link."""
        os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=to.descriptor)

    def remove(self, name: str) -> None:
        """Remove what is no directory; of a link, the link."""
        os.unlink(name, dir_fd=self.descriptor)

    def remove_tree(self, name: str) -> None:
        """Remove a real directory and all in it, as far as that is possible; a link is left alone."""
        shutil.rmtree(name, ignore_errors=True, dir_fd=self.descriptor)

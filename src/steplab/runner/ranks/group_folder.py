"""The temporary folder of a group of ranks: its socket, its logs, its token.

Ranks keep their own temporary files there, so that all of it goes at once. Who knows the token in it may speak.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path

from steplab.core.errors import EnvironmentFault
from steplab_worker.launched import TOKEN, log_path

PREFIX = "steplab-room-"
UNNAMED = "steplab-new-"  # a folder that is not locked yet
NEW_S = 60.0  # that long, at most
SHARED_MEMORY = Path("/dev/shm")


class GroupFolder:
    """A folder that is locked as long as its laboratory lives; the kernel unlocks it whatever ends the laboratory."""

    def __init__(self) -> None:
        self._locks: list[int] = []
        self._folders: list[Path] = []
        self.token = secrets.token_hex(16)
        try:
            self.path = self._folder(Path(tempfile.gettempdir()))
            self.temporary.mkdir()
            (self.path / TOKEN).write_text(self.token, encoding="ascii")
        except OSError as error:
            self.remove()
            what = f"the ranks' temporary folder cannot be made ({error.strerror})"
            raise EnvironmentFault(f"{what}; TMPDIR names the place for it") from None

    @property
    def temporary(self) -> Path:
        """Where the ranks' own temporary files are."""
        return self.path / "tmp"

    @property
    def channel(self) -> str:
        """The address of the laboratory's socket, for members on this host."""
        return f"unix:{self.path / 'channel'}"

    def log(self, number: int) -> Path:
        """Where a member's output goes."""
        return Path(log_path(str(self.path), number))

    def shared_memory(self) -> Path:
        """A folder in memory for the ranks of a launcher, or the room itself where there is none."""
        try:
            return self._folder(SHARED_MEMORY)
        except OSError:
            return self.path

    def _folder(self, place: Path) -> Path:
        """A new folder, locked before it has the name by which it is swept."""
        unnamed = Path(tempfile.mkdtemp(prefix=UNNAMED, dir=place))
        self._folders.append(unnamed)
        lock = os.open(unnamed, os.O_RDONLY)
        self._locks.append(lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._folders[-1] = unnamed.rename(unnamed.with_name(PREFIX + unnamed.name.removeprefix(UNNAMED)))
        return self._folders[-1]

    def remove(self) -> None:
        """Remove the folder with all that is in it; a second time does nothing."""
        for path in self._folders:
            shutil.rmtree(path, ignore_errors=True)
        while self._locks:
            os.close(self._locks.pop())


def sweep(now: float | None = None) -> None:
    """Remove the folders of laboratories that were killed; those of living ones stay."""
    now = time.time() if now is None else now
    for place in _places():
        for path in [*place.glob(PREFIX + "*"), *place.glob(UNNAMED + "*")]:
            with contextlib.suppress(OSError):
                about = path.lstat()
                young = path.name.startswith(UNNAMED) and now - about.st_mtime <= NEW_S
                if about.st_uid == os.getuid() and not young and not _locked(path):
                    shutil.rmtree(path, ignore_errors=True)


def _locked(path: Path) -> bool:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _places() -> set[Path]:
    with contextlib.suppress(OSError):  # no place at all for temporary files: making a room will say so
        return {Path(tempfile.gettempdir()), SHARED_MEMORY}
    return {SHARED_MEMORY}

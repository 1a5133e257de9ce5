"""The temporary folder of a group of ranks: its socket, its logs, where its ranks meet."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "steplab-room-"
NEW_S = 60.0  # a folder this young may not be locked yet


class Room:
    """A folder that is locked as long as its laboratory lives; the kernel unlocks it whatever ends the laboratory."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / "rendezvous").mkdir()

    def remove(self) -> None:
        """Remove the folder with all that is in it; a second time does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep(now: float | None = None) -> None:
    """Remove the folders of laboratories that were killed; those of living ones stay."""
    now = time.time() if now is None else now
    for path in Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == os.getuid() and now - path.stat().st_mtime > NEW_S and not _locked(path):
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

"""Claims: several laboratories share one folder without locks by saying what each is at. Only advice.

A claim names its laboratory's process and how long it may take. One whose process is gone (seen from the same host)
or whose time is over counts for nothing, so a killed laboratory holds nobody up. If two laboratories still run the
same trial, the first record stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from steplab.store.paths import StudyFolder


@dataclass(frozen=True)
class Claims:
    """The claims of one laboratory on one folder."""

    folder: StudyFolder
    patience_s: float

    def take(self, trial: str) -> bool:
        """Claim a trial; False if another laboratory is at it."""
        path = self.folder.claim(trial)
        content = json.dumps(_me() | {"expires": time.time() + self.patience_s})
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(content)
        except FileExistsError:
            if _alive(path):
                return False
            path.write_text(content, encoding="utf-8")
        except OSError:
            return True  # claims are only advice: a folder that takes none is no reason to stop
        return True

    def release(self, trial: str) -> None:
        """Give a claim back."""
        with contextlib.suppress(OSError):
            self.folder.claim(trial).unlink()


def _me() -> dict[str, object]:
    process = psutil.Process()
    return {"host": socket.gethostname(), "pid": process.pid, "since": process.create_time()}


def _alive(path: Path) -> bool:
    try:
        claim = json.loads(path.read_text(encoding="utf-8"))
        if claim["expires"] < time.time():
            return False
        if claim["host"] != socket.gethostname():
            return True
        pid = int(claim["pid"])
        return pid != os.getpid() and bool(psutil.Process(pid).create_time() == claim["since"])
    except psutil.Error:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        return path.exists() and time.time() - path.stat().st_mtime < 5  # half-written just now, or rubbish

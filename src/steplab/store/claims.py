"""Claims: several laboratories share one folder without locks by saying what each is at. Only advice.

A claim names its laboratory's process and how long it may take. One whose process is gone (seen from the same host)
or whose time is over counts for nothing, so a killed laboratory holds nobody up; nor does one that cannot be read, be
written or be believed. If two laboratories still run the same trial, the first record stays.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import dataclass

import orjson
import psutil

from steplab.core.errors import InputError
from steplab.store.directory import Directory
from steplab.store.paths import StudyFolder

MOST_BYTES = 4096
FRESH_S = 5.0  # so long a claim that cannot be read may be one that is being written
CREDIBLE = 10.0  # times one's own patience: other laboratories may have other deadlines, but no endless ones


@dataclass(frozen=True)
class Claims:
    """The claims of one laboratory on one folder."""

    folder: StudyFolder
    patience_s: float

    def take(self, trial: str) -> bool:
        """Claim a trial; False if another laboratory is at it."""
        content = orjson.dumps(_me() | {"expires": time.time() + self.patience_s})
        with contextlib.suppress(OSError, InputError), self.folder.made(self.folder.claims) as claims:
            try:
                claims.create(trial, content)
            except FileExistsError:
                if _is_alive(claims, trial, CREDIBLE * self.patience_s):
                    return False
                claims.write(trial, content)
        return True  # also in a folder that takes no claims: they are no reason to stop

    def holder(self, trial: str) -> str:
        """Who is at a trial, as it says of itself."""
        with contextlib.suppress(OSError, InputError, ValueError, KeyError, TypeError, OverflowError):
            with self.folder.opened(self.folder.claims) as claims:
                claim = orjson.loads(claims.read(trial, MOST_BYTES))
            minutes = max(0.0, claim["expires"] - time.time()) / 60
            return f"process {int(claim['pid'])} on {claim['host']}, for at most {minutes:.0f} minutes more"
        return "another laboratory"

    def release(self, trial: str) -> None:
        """Give a claim back."""
        with contextlib.suppress(OSError, InputError), self.folder.opened(self.folder.claims) as claims:
            claims.remove(trial)


def _me() -> dict[str, object]:
    process = psutil.Process()
    return {"host": socket.gethostname(), "pid": process.pid, "since": process.create_time()}


def _is_alive(claims: Directory, trial: str, most_s: float) -> bool:
    """Whether somebody is at the trial, for at most so long."""
    try:
        claim = orjson.loads(claims.read(trial, MOST_BYTES))
        if not 0 <= claim["expires"] - time.time() <= most_s:
            return False
        if claim["host"] != socket.gethostname():
            return True
        pid = int(claim["pid"])
        return pid != os.getpid() and bool(psutil.Process(pid).create_time() == claim["since"])
    except psutil.Error:
        return False
    except orjson.JSONDecodeError:
        return abs(time.time() - claims.status(trial).st_mtime) < FRESH_S  # half-written just now, or rubbish
    except (ValueError, KeyError, TypeError, OverflowError):
        return False

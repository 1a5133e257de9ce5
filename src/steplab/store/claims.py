"""Claims: several laboratories share one folder without locks by saying what each is at. Only advice.

A claim names its laboratory's process and how long it may take. One whose process is gone (seen from the same host)
or whose time is over counts for nothing, so a killed laboratory holds nobody up; nor does one that cannot be read, be
written or be believed. If two laboratories still run the same trial, the first record stays.

A laboratory inside an allocation names its submission, too: when its job has ended, whoever submitted it finds by this
the trial that it was at, so such a claim stays until then, although its process is gone.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil

from steplab.core.errors import InputError
from steplab.store.directory import Directory
from steplab.store.paths import TRIAL, StudyFolder
from steplab.store.records import done

MOST_BYTES = 4096
FRESH_S = 5.0  # so long a claim that cannot be read may be one that is being written
CROWDED_S, MOST_DOUBLED = 0.2, 8  # refusals so close together double how many trials are left to others, so often
CREDIBLE = 10.0  # times one's own patience: other laboratories may have other deadlines, but no endless ones


@dataclass(frozen=True)
class Claims:
    """The claims of one laboratory on one folder."""

    folder: StudyFolder
    patience_s: float
    submission: str = ""  # by which the laboratory was submitted; empty for one that a person started

    def take(self, trial: str) -> bool:
        """Claim a trial; False if another laboratory is at it."""
        content = orjson.dumps(self._me() | {"expires": time.time() + self.patience_s})
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
        release(self.folder, trial)

    def _me(self) -> dict[str, object]:
        process = psutil.Process()
        submitted = {"submission": self.submission} if self.submission else {}
        return {"host": socket.gethostname(), "pid": process.pid, "since": process.create_time(), **submitted}


class Crowd:
    """Which trials hundreds of laboratories are at, by a listing now and then instead of a look at each trial.

    A look at one trial is a dozen operations of a file system that may be far away, and without this each laboratory
    would look at each trial (decision 32). Only advice, as claims are: who needs to know looks at the trial itself. Who
    was refused a trial lists again, since others have gone on meanwhile, and leaves a few open ones to those who were
    refused with it.
    """

    def __init__(self, folder: StudyFolder, fresh_s: float = 2.0) -> None:
        self.folder, self.fresh_s = folder, fresh_s
        self._names: set[str] = set()
        self._listed = self._refused = -math.inf
        self._in_a_row = self._skip = 0
        self.left_some = False  # whether open trials were left to others
        self._random = random.Random(f"{socket.gethostname()} {os.getpid()}")

    def __contains__(self, trial: object) -> bool:
        """Whether somebody was at a trial, or had finished it, a moment ago; or whether it is left to others."""
        if time.monotonic() - self._listed > self.fresh_s:
            self._names = _names(self.folder, self.folder.claims) | done(self.folder)
            self._listed = time.monotonic()
        if trial in self._names:
            return True
        if self._skip:
            self._skip -= 1
            self.left_some = True
            return True
        return False

    def refused(self, trial: object) -> None:
        """Another laboratory was faster at a trial."""
        now = time.monotonic()
        self._in_a_row = self._in_a_row + 1 if now - self._refused < CROWDED_S else 0
        self._skip = self._random.randrange(2 ** min(self._in_a_row, MOST_DOUBLED))
        self._refused, self._listed = now, -math.inf


def _names(folder: StudyFolder, place: Path) -> set[str]:
    with contextlib.suppress(OSError, InputError), folder.opened(place) as directory:
        return set(directory.names())
    return set()


def release(folder: StudyFolder, trial: str) -> None:
    """Remove the claim on a trial, whoever has it."""
    with contextlib.suppress(OSError, InputError), folder.opened(folder.claims) as claims:
        claims.remove(trial)


def submitted_claims(folder: StudyFolder) -> Iterator[tuple[str, str]]:
    """The trials that laboratories inside allocations are at, each with the submission."""
    with contextlib.suppress(OSError, InputError), folder.opened(folder.claims) as claims:
        for trial in filter(TRIAL.fullmatch, claims.names()):
            with contextlib.suppress(OSError, InputError, ValueError, TypeError, AttributeError):
                submission = orjson.loads(claims.read(trial, MOST_BYTES)).get("submission")
                if isinstance(submission, str):
                    yield trial, submission


def _is_alive(claims: Directory, trial: str, most_s: float) -> bool:
    """Whether somebody is at the trial, for at most so long."""
    try:
        claim = orjson.loads(claims.read(trial, MOST_BYTES))
        if not 0 <= claim["expires"] - time.time() <= most_s:
            return False
        if claim["host"] != socket.gethostname() or claim.get("submission"):
            return True
        pid = int(claim["pid"])
        return pid != os.getpid() and bool(psutil.Process(pid).create_time() == claim["since"])
    except psutil.Error:
        return False
    except orjson.JSONDecodeError:
        return abs(time.time() - claims.status(trial).st_mtime) < FRESH_S  # half-written just now, or rubbish
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError):
        return False

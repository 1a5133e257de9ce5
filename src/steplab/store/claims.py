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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil

from steplab.core.errors import InputError
from steplab.store.directory import Directory
from steplab.store.paths import TRIAL, StudyFolder
from steplab.store.records import done

Numbered = tuple[int, int, str]  # replicate, row and id of a trial, as a plan tells them

MOST_BYTES = 4096
FRESH_S = 5.0  # so long a claim that cannot be read may be one that is being written
SPREAD = 4  # trials to choose from, for each laboratory that is at one
MOST_REFUSALS = 3  # in a row, until it is worth to list again
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
        with contextlib.suppress(OSError, InputError), self.folder.ensured(self.folder.claims) as claims:
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
    would look at each trial (decision 32). Only advice, as claims are: who needs to know looks at the trial itself.
    All laboratories would try the same trial next, and all but one be refused: so each tries the next ones of the plan
    in an order of its own, more of them the more laboratories there are, but one block of the design after the other:
    each has its own ranks. A single laboratory keeps to the plan's order.
    """

    def __init__(self, folder: StudyFolder, fresh_s: float = 2.0) -> None:
        self.folder, self.fresh_s = folder, fresh_s
        self.moved = False  # whether a trial was claimed or refused since the listing
        self._listed, self._refusals = -math.inf, 0
        self._random = random.Random(f"{socket.gethostname()} {os.getpid()}")

    def open_trials(self, trials: Iterable[Numbered]) -> Iterator[Numbered]:
        """Those that nobody is at or has finished, by a new listing, until so much has happened that it is out of date.

        Where nothing happens they all come.
        """
        claimed = _names(self.folder, self.folder.claims)
        known = claimed | done(self.folder)
        self._listed, self._refusals, self.moved = time.monotonic(), 0, False
        order = [numbered for numbered in trials if numbered[2] not in known]
        order[: SPREAD * len(claimed)] = self._shuffled(order[: SPREAD * len(claimed)])
        for numbered in order:
            if self.moved and (time.monotonic() - self._listed > self.fresh_s or self._refusals >= MOST_REFUSALS):
                return
            yield numbered

    def _shuffled(self, trials: list[Numbered]) -> list[Numbered]:
        return sorted(self._random.sample(trials, len(trials)), key=lambda numbered: numbered[0])

    def claimed(self) -> None:
        """A trial was to be had."""
        self.moved, self._refusals = True, 0

    def refused(self) -> None:
        """Another laboratory was faster."""
        self.moved, self._refusals = True, self._refusals + 1


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

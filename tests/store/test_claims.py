"""Claims: a living laboratory is left its trial; nothing else holds anybody up."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from steplab.store import records
from steplab.store.claims import Claims, Crowd, submitted_claims
from steplab.store.paths import StudyFolder

TRIAL = "0123456789abcdef"


@pytest.fixture
def claims(small: StudyFolder) -> Claims:
    """The claims of this laboratory."""
    return Claims(small, 60.0)


def write(claims: Claims, **changed: object) -> None:
    parent = psutil.Process().parent()
    claim = {"host": socket.gethostname(), "pid": parent.pid, "since": parent.create_time()}
    claims.folder.claim(TRIAL).write_text(json.dumps(claim | {"expires": time.time() + 30} | changed))


def test_a_claim_is_taken_once_and_given_back(claims: Claims) -> None:
    assert claims.take(TRIAL)
    assert json.loads(claims.folder.claim(TRIAL).read_text())["pid"] == os.getpid()
    claims.release(TRIAL)
    assert not claims.folder.claim(TRIAL).exists()


def test_a_living_laboratory_keeps_its_trial(claims: Claims) -> None:
    write(claims)
    assert not claims.take(TRIAL)
    write(claims, host="elsewhere")
    assert not claims.take(TRIAL)


@pytest.mark.parametrize(
    "changed",
    [
        {"since": 1.0}, {"pid": 999999999}, {"pid": 10**40}, {"pid": "x"}, {"host": "far", "expires": 1.0},
        {"host": "far", "expires": 1e18}, {"host": "far", "expires": float("nan")}, {"expires": "late"},
    ],
)  # fmt: skip
def test_a_claim_that_nobody_can_believe_counts_for_nothing(claims: Claims, changed: dict[str, object]) -> None:
    write(claims, **changed)
    past = time.time() - 60
    os.utime(claims.folder.claim(TRIAL), (past, past))
    assert claims.take(TRIAL)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    (path / "full").mkdir(parents=True)


def link(path: Path) -> None:
    (path.parents[2] / "outside").write_text("mine")
    path.symlink_to(path.parents[2] / "outside")


def rubbish_of_tomorrow(path: Path) -> None:
    path.write_text("[" * 3000)
    os.utime(path, (time.time() + 86400, time.time() + 86400))


@pytest.mark.parametrize("put", [fifo, directory, link, rubbish_of_tomorrow])
def test_what_is_no_claim_holds_nobody_up(claims: Claims, put: Callable[[Path], None]) -> None:
    put(claims.folder.claim(TRIAL))
    assert claims.take(TRIAL)
    claims.release(TRIAL)
    outside = claims.folder.root.parent / "outside"
    assert not outside.exists() or outside.read_text() == "mine"


@pytest.mark.parametrize("put", [lambda path: path.write_text(""), fifo])
def test_a_folder_that_takes_no_claims_is_no_reason_to_stop(claims: Claims, put: Callable[[Path], None]) -> None:
    claims.folder.claims.rmdir()
    put(claims.folder.claims)
    assert claims.take(TRIAL)
    claims.release(TRIAL)


def test_a_submitted_laboratorys_claim_stays_after_its_process_for_whoever_settles_its_job(claims: Claims) -> None:
    write(claims, pid=999999999, submission="0123456789")
    assert not claims.take(TRIAL)
    assert list(submitted_claims(claims.folder)) == [(TRIAL, "0123456789")]
    write(claims, host="far", expires=1.0, submission="0123456789")
    assert claims.take(TRIAL), "its time is over"
    assert list(submitted_claims(claims.folder)) == []


def test_a_crowd_knows_what_others_are_at_and_what_is_done(claims: Claims) -> None:
    done = sorted(records.done(claims.folder))[0]
    crowd = Crowd(claims.folder, fresh_s=0.0)
    assert done in crowd
    assert TRIAL not in crowd
    assert claims.take(TRIAL)
    assert TRIAL in crowd
    slow = Crowd(claims.folder, fresh_s=1000.0)
    assert TRIAL in slow
    claims.release(TRIAL)
    assert TRIAL in slow, "only a listing now and then"
    assert TRIAL not in crowd


def test_who_was_refused_lists_again_and_leaves_ever_more_to_others(claims: Claims) -> None:
    crowd = Crowd(claims.folder, fresh_s=1000.0)
    assert TRIAL not in crowd
    assert claims.take(TRIAL)
    assert TRIAL not in crowd, "by the listing from before"
    crowd.refused(TRIAL)
    assert TRIAL in crowd
    open_ = [f"{number:016x}" for number in range(2000)]
    assert [trial for trial in open_ if trial not in crowd] == open_, "one refusal is an accident"
    left = []
    for _ in range(6):
        crowd.refused(TRIAL)
        left.append(sum(trial in crowd for trial in open_))
    assert max(left) < 2**6
    assert any(left)
    assert crowd.left_some, "so it comes by once more"

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
from steplab.store.claims import MOST_REFUSALS, Claims, Crowd, submitted_claims
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


def open_trials(crowd: Crowd, trials: list[str]) -> list[str]:
    """Of two blocks, the first ten trials and the rest."""
    numbered = [(int(row >= 10), row, trial) for row, trial in enumerate(trials)]
    return [trial for _, _, trial in crowd.open_trials(numbered)]


def test_a_crowd_knows_what_others_are_at_and_what_is_done(claims: Claims) -> None:
    done = sorted(records.done(claims.folder))[0]
    crowd = Crowd(claims.folder)
    assert open_trials(crowd, [done, TRIAL]) == [TRIAL]
    assert claims.take(TRIAL)
    assert open_trials(crowd, [done, TRIAL]) == []
    claims.release(TRIAL)
    assert open_trials(crowd, [done, TRIAL]) == [TRIAL]


MANY = [f"{number:016x}" for number in range(40)]


def test_a_laboratory_alone_keeps_to_the_plan_and_one_of_many_has_an_order_of_its_own(claims: Claims) -> None:
    assert open_trials(Crowd(claims.folder), MANY) == MANY
    assert claims.take(MANY[0])
    assert claims.take(MANY[20])
    order = open_trials(Crowd(claims.folder), MANY)
    rest = [trial for trial in MANY if trial not in (MANY[0], MANY[20])]
    assert sorted(order[:8]) == rest[:8]
    assert order[8:] == rest[8:]
    assert claims.take(MANY[1])
    assert claims.take(MANY[2])
    order = open_trials(Crowd(claims.folder), MANY)
    assert sorted(order[:7]) == MANY[3:10], "a block of the design is done before the next is begun"
    orders = {tuple(open_trials(crowd, MANY)) for crowd in [Crowd(claims.folder)] for _ in range(20)}
    assert len(orders) > 1


def test_who_is_refused_again_and_again_lists_anew(claims: Claims) -> None:
    crowd = Crowd(claims.folder, fresh_s=1000.0)
    tried = []
    for _, _, trial in crowd.open_trials([(0, row, trial) for row, trial in enumerate(MANY)]):
        tried.append(trial)
        crowd.refused()
    assert len(tried) == MOST_REFUSALS


def test_a_listing_that_is_out_of_date_is_left_once_something_was_claimed(claims: Claims) -> None:
    crowd = Crowd(claims.folder, fresh_s=-1.0)
    assert len(open_trials(crowd, MANY)) == len(MANY), "nothing has happened, so all are looked at once"
    assert not crowd.moved, "there is nothing to be had"
    tried = []
    for _, _, trial in crowd.open_trials([(0, row, trial) for row, trial in enumerate(MANY)]):
        tried.append(trial)
        crowd.claimed()
    assert len(tried) == 1
    assert crowd.moved

"""What Slurm's job states mean to a study: waiting, at work, or ended, and whose fault it was."""

from __future__ import annotations

from dataclasses import dataclass

from steplab.core.trial import Status

QUEUED = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")


@dataclass(frozen=True)
class Meaning:
    """What a job's end means for the trial that it took down with it."""

    status: Status
    words: str  # what happened to the job


ENDS = {
    "COMPLETED": Meaning("failed", "ended by itself"),
    "FAILED": Meaning("failed", "failed"),
    "LAUNCH_FAILED": Meaning("failed", "could not be launched"),
    "CANCELLED": Meaning("killed", "was cancelled"),
    "REVOKED": Meaning("killed", "was revoked"),
    "PREEMPTED": Meaning("killed", "was preempted by another job"),
    "NODE_FAIL": Meaning("killed", "lost a node"),
    "BOOT_FAIL": Meaning("killed", "got a node that did not boot"),
    "TIMEOUT": Meaning("timeout", "ran into its time limit"),
    "DEADLINE": Meaning("timeout", "ran into its deadline"),
    "OUT_OF_MEMORY": Meaning("out-of-memory", "ran out of memory"),
}
GONE = Meaning("killed", "is gone from Slurm's queue, and no accounting says why")
NEVER = "never reached Slurm"


def is_live(state: str) -> bool:
    """Whether a job waits or works.

    >>> is_live("PENDING"), is_live("COMPLETING"), is_live("CANCELLED by 0")
    (True, True, False)
    """
    return _plain(state) in QUEUED + RUNNING


def is_queued(state: str) -> bool:
    """Whether a job waits for its allocation."""
    return _plain(state) in QUEUED


def meaning(state: str) -> Meaning:
    """What the end of a job means; an empty state is a job that Slurm knows no more.

    >>> meaning("CANCELLED by 1000").words, meaning("NODE_FAIL").status, meaning("").words
    ('was cancelled', 'killed', "is gone from Slurm's queue, and no accounting says why")
    """
    if not state:
        return GONE
    return ENDS.get(_plain(state), Meaning("failed", f"ended as {_plain(state)}"))


def _plain(state: str) -> str:
    """A state without what `sacct` adds: who cancelled it, or that the word was cut."""
    return state.split(" ", 1)[0].rstrip("+")

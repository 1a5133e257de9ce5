"""[executor.slurm]: what a study, or a user for all studies, asks of Slurm."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from steplab.core.measurement import Section

TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")
# What the laboratory sets itself; another value would break what it relies on.
OWN_FLAGS = (
    "array", "begin", "chdir", "cpus-per-task", "dependency", "error", "export", "gpus-per-node", "hold", "input",
    "job-name", "no-requeue", "nodes", "ntasks", "ntasks-per-node", "open-mode", "output", "parsable", "requeue",
    "signal", "test-only", "time", "time-min", "wait", "wrap",
)  # fmt: skip
# Those that have a field.
FIELDS = ("account", "constraint", "exclusive", "partition", "qos")


def seconds_of(limit: str) -> int:
    """A time limit as Slurm writes it, in seconds; ValueError says what is wrong.

    >>> seconds_of("30"), seconds_of("1:30"), seconds_of("2:00:00"), seconds_of("1-12"), seconds_of("1-0:30")
    (1800, 90, 7200, 129600, 88200)
    """
    parts = TIME.fullmatch(limit)
    if parts is None:
        raise ValueError("must be minutes, hours:minutes:seconds or days-hours:minutes:seconds, such as '2:00:00'")
    first, second, third = (int(parts[name] or 0) for name in ("first", "second", "third"))
    if parts["days"] is not None:
        seconds = int(parts["days"]) * 86400 + first * 3600 + second * 60 + third
    elif parts["third"] is not None:
        seconds = first * 3600 + second * 60 + third
    else:
        seconds = first * 60 + second
    if not seconds:
        raise ValueError("must be more than nothing")
    return seconds


def _limit(text: str) -> str:
    seconds_of(text)
    return text


def _line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be one line of plain text")
    return text


def _flag(text: str) -> str:
    name = re.fullmatch(r"--([a-z][a-z0-9-]*)(?:=\S.*)?", _line(text))
    if name is None:
        raise ValueError("must be written --name or --name=value")
    if name[1] in FIELDS:
        raise ValueError(f"must not hold --{name[1]}: there is a field {name[1]!r} for it")
    if name[1] in OWN_FLAGS:
        raise ValueError(f"must not hold --{name[1]}, which the laboratory sets itself")
    return text


# Goes into a line of the batch script, so it must be one word.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9._,:&|*()\[\]@+=/-]{1,200}$")]


class SlurmSettings(Section):
    """[executor.slurm]: where jobs go, how long they may take, how many there are at a time."""

    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    constraint: Word | None = None
    time: Annotated[str, AfterValidator(_limit)] = "1:00:00"
    jobs: Annotated[int, Field(ge=1, le=1000)] = 4
    gpus: Annotated[int, Field(ge=1, le=64)] | None = None
    exclusive: bool = True
    retries: Annotated[int, Field(ge=0, le=100)] = 2
    warning_s: Annotated[int, Field(ge=10, le=3600)] = 60
    poll_s: Annotated[int | float, Field(ge=0.2, le=600)] = 5
    flags: list[Annotated[str, AfterValidator(_flag)]] = Field(default=[])
    setup: list[Annotated[str, AfterValidator(_line)]] = Field(default=[])

    @property
    def time_s(self) -> int:
        """The time limit of a job."""
        return seconds_of(self.time)

"""What a source is: its studies, the small tables that their records become, the tables and questions of its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from steplab.sources.claim import Claim
from steplab_worker.phases import EXCHANGE_PARTS, ITERATION, SHARES

if TYPE_CHECKING:
    import pyarrow as pa

    from steplab.analysis.roofline.points import Roofline

Tables = Mapping[str, pd.DataFrame]  # by name; `trials` has a row for each trial
SIZES = ("laptop", "full")
TRIALS = "trials"


@dataclass(frozen=True)
class Measured:
    """What the records of one study say."""

    trials: pd.DataFrame
    factors: tuple[str, ...]
    iterations: pa.Table
    rooflines: Callable[[], Mapping[str, Roofline]]  # of each trial; the machine's ceilings are measured for it


@dataclass(frozen=True)
class PageTable:
    """A table of a page: what the source printed, and what our records say beside it.

    `on` are the columns that both have. `command` repeats ours; `{folder}` stands for the study's folder.
    """

    name: str
    ours: Callable[[Tables], pd.DataFrame]
    command: str
    published: str = ""  # the file's name without its ending
    on: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)  # columns of the published table
    levels: Mapping[str, str] = field(default_factory=dict)  # what it calls things otherwise
    reads: tuple[str, ...] = (TRIALS,)  # the tables that ours is made of
    measured: bool = True  # false: nothing has to be run for it


@dataclass(frozen=True)
class Figure:
    """A picture of a page, drawn from our tables; `words` say what it shows."""

    name: str
    words: str
    draw: Callable[[Tables], str]  # as SVG
    reads: tuple[str, ...] = (TRIALS,)


@dataclass(frozen=True)
class Question:
    """A claim of a source as a question, and the function that answers it from tables."""

    text: str
    answer: Callable[[Tables], Claim]


@dataclass(frozen=True)
class Source:
    """One of the reports behind this project."""

    name: str
    title: str
    report: str  # which one, and where in it
    tables: tuple[PageTable, ...]
    questions: tuple[Question, ...]
    figures: tuple[Figure, ...] = ()
    parts: tuple[str, ...] = ()  # its study files without the size, if one does not hold it
    more: Callable[[list[Measured], pd.DataFrame], Tables] | None = None  # small tables beside the trials

    @property
    def studies(self) -> tuple[str, ...]:
        """The names of its studies, without the size."""
        return self.parts or (self.name,)

    def file(self, study: str, size: str) -> str:
        """The name of a study's file."""
        return f"{study}-{size}.toml"

    def summary(self, measured: list[Measured]) -> dict[str, pd.DataFrame]:
        """The records as small tables: the trials that were measured, and what else the page needs."""
        trials = pd.concat([_kept(study) for study in measured], ignore_index=True)
        return {TRIALS: trials, **(self.more(measured, trials) if self.more else {})}


# What a trial is known by and what it took; the rest of the table of trials stays with the records.
KEPT = (
    "trial", "replicate", "framework", "network", "dataset", "batch_size", "workers", "threads", "strategy", ITERATION,
    *SHARES, *EXCHANGE_PARTS, "lif", "throughput",
    "memory_bytes", "cpu_s", "other_cpu_s", "energy_j", "energy_provenance", "seconds", "epochs", "train_s",
    "validation_accuracy", "version", "verdict",
)  # fmt: skip


def _kept(study: Measured) -> pd.DataFrame:
    """The measured trials with the columns that a page may need, those that hold anything."""
    ok = study.trials[study.trials["status"] == "ok"]
    names = [name for name in dict.fromkeys((*KEPT, *study.factors)) if name in ok.columns]
    return ok[names].dropna(axis="columns", how="all")

"""Running the sources again, one study after the other; their pages are written from what was measured."""

from __future__ import annotations

import contextlib
import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from steplab.api.machine.nets import net_down, net_up, nets
from steplab.api.measuring.plan import StudyPlan, plan, read_study
from steplab.api.measuring.run import RunObserver, run_plan
from steplab.api.measuring.status import Counts
from steplab.api.reproduction.smoke import SMOKE, smoke_study
from steplab.api.reproduction.summaries import (
    digest,
    published_tables,
    read_summaries,
    read_summary,
    summarised,
    write_summary,
)
from steplab.core.errors import InputError, allowed, nearest
from steplab.core.parsing import read_text
from steplab.runner.executors import LOCAL, expect_executor
from steplab.runner.interrupts import Stop
from steplab.sources import load_source, source_names
from steplab.sources.claim import Claim
from steplab.sources.page import Summary, claims_of, drawings, filled, filled_index, our_table
from steplab.sources.source import SIZES, Source, Tables
from steplab.store import records
from steplab.study.sections import Study

__all__ = [
    "Claim",
    "Reproduction",
    "SourcePlan",
    "SourceRun",
    "expect_source_table",
    "rebuild_pages",
    "reproduce",
    "source_plans",
    "source_table",
]
log = logging.getLogger("steplab")
OUT, STUDIES, PAGES = Path("runs/sources"), Path("studies"), Path("docs/sources")
BOX = "net:"
MOST_BYTES = 20_000_000  # of a page or a picture
Watch = Callable[[StudyPlan], AbstractContextManager[RunObserver]]


@dataclass(frozen=True)
class SourcePlan:
    """A source at one size before it runs: its studies' plans."""

    source: Source
    size: str
    plans: tuple[StudyPlan, ...]

    @property
    def folders(self) -> list[Path]:
        """The folders of its studies."""
        return [planned.folder for planned in self.plans]

    @property
    def trials(self) -> int:
        """How many trials it has."""
        return sum(len(planned.trials) for planned in self.plans)

    @property
    def left(self) -> int:
        """How many of them have no record yet."""
        return sum(planned.counts.left for planned in self.plans)

    @property
    def seconds(self) -> float:
        """The estimated time of what is left."""
        return sum(planned.seconds for planned in self.plans)

    def document(self) -> dict[str, Any]:
        """The plan as plain data."""
        source = {"name": self.source.name, "title": self.source.title, "report": self.source.report}
        numbers = {"size": self.size, "trials": self.trials, "left": self.left, "seconds": self.seconds}
        return {**source, **numbers, "studies": [str(planned.study.path) for planned in self.plans]}


@dataclass(frozen=True)
class SourceRun:
    """A source that was run, or as far as it came: its trials, and the claims if all trials are done."""

    name: str
    size: str
    studies: tuple[Counts, ...]
    claims: tuple[Claim, ...]

    @property
    def left(self) -> int:
        """Trials without a record."""
        return sum(counts.left for counts in self.studies)

    @property
    def failed(self) -> int:
        """Trials that failed."""
        return sum(counts.failed for counts in self.studies)

    def document(self) -> dict[str, Any]:
        """The run as plain data."""
        studies = [counts.document() for counts in self.studies]
        return {"name": self.name, "size": self.size, "studies": studies, "claims": [asdict(c) for c in self.claims]}


@dataclass(frozen=True)
class Reproduction:
    """What was run, which pages were written, and whether somebody asked to stop."""

    runs: tuple[SourceRun, ...]
    pages: tuple[Path, ...]
    stopped: bool

    @property
    def failed(self) -> int:
        """Trials that failed."""
        return sum(run.failed for run in self.runs)

    def document(self) -> dict[str, Any]:
        """What `steplab sources --json` prints."""
        told = {"sources": [run.document() for run in self.runs], "pages": [str(page) for page in self.pages]}
        return {**told, "stopped": self.stopped}


def source_plans(
    only: Sequence[str] = (),
    size: str = "laptop",
    *,
    out: Path | str = OUT,
    studies: Path | str = STUDIES,
    executor: str = LOCAL,
) -> list[SourcePlan]:
    """The studies of the sources at one size, planned; nothing is run.

    Args:
        only: The names of some sources; by default all.
        size: laptop, full, or smoke (the laptop's studies cut down to a moment).
        out: The folder for the studies' folders.
        studies: The folder with the study files, as in a checkout of steplab.
        executor: Where the trials are to run.
    """
    if size not in (*SIZES, SMOKE):
        raise InputError(f"there is no size {size!r}", hint=allowed((*SIZES, SMOKE)))
    expect_executor(executor)
    for name in only:
        if name not in source_names():
            raise InputError(f"there is no source {name!r}", hint=nearest(name, source_names()))
    if not Path(studies).is_dir():
        raise InputError(
            "there is no such folder", where=str(studies), hint="run it in a checkout, or give --studies DIR"
        )
    return [_planned(load_source(name), size, Path(out), Path(studies), executor) for name in only or source_names()]


def _planned(source: Source, size: str, out: Path, studies: Path, executor: str) -> SourcePlan:
    plans = []
    for name in source.studies:
        folder = out / f"{name}-{size}"
        if size == SMOKE:
            declared = smoke_study(studies / source.file(name, SIZES[0]), folder.name)
        else:
            declared = read_study(studies / source.file(name, size))
        plans.append(plan(declared, folder, executor=_where(declared, executor)))
    return SourcePlan(source, size, tuple(plans))


def _boxes(study: Study) -> list[str]:
    """The clusters in a box that a study is placed in."""
    placements = study.factors.get("placement", ())
    return [str(level).removeprefix(BOX) for level in placements if str(level).startswith(BOX)] if placements else []


def _where(study: Study, executor: str) -> str:
    """Where a study runs: hosts in a box are this machine's, whatever the others run on."""
    return LOCAL if _boxes(study) else executor


@contextlib.contextmanager
def _unwatched(planned: StudyPlan) -> Iterator[RunObserver]:
    yield RunObserver()


def reproduce(
    only: Sequence[str] = (),
    size: str = "laptop",
    *,
    out: Path | str = OUT,
    studies: Path | str = STUDIES,
    pages: Path | str | None = PAGES,
    executor: str = LOCAL,
    watch: Watch = _unwatched,
    stop: Stop | None = None,
    tell: Callable[[str], None] = log.info,
) -> Reproduction:
    """Run the studies of the sources one after the other, or go on where that stopped, and write their pages.

    A source whose trials all have a record becomes small tables in `pages`/data; its page is filled from them. What has
    not changed since is not computed again. Of size smoke the tables stay with the records, and no page is touched.

    Args:
        only: The names of some sources; by default all.
        size: laptop, full, or smoke (the laptop's studies cut down to a moment).
        out: The folder for the studies' folders.
        studies: The folder with the study files, as in a checkout of steplab.
        pages: The folder of the pages; None writes none, and the tables stay with the records.
        executor: Where the trials run.
        watch: Gives the observer of each study.
        stop: Set `stop.asked`, and it ends after the trial that runs.
        tell: Hears of what takes a while beside the trials: fitting models to hundreds of them.
    """
    planned = source_plans(only, size, out=out, studies=studies, executor=executor)
    stop = stop or Stop()
    data = Path(out) / "data" if pages is None or size == SMOKE else Path(pages) / "data"
    runs = []
    for source_plan in planned:
        counts = tuple(_run(study, executor, watch, stop, tell) for study in source_plan.plans)
        done = not sum(study.left for study in counts) and any(study.ok for study in counts)
        summary = _kept_summary(source_plan, data, executor, tell) if done else None
        claims = () if summary is None else claims_of(source_plan.source, summary)
        runs.append(SourceRun(source_plan.source.name, size, counts, claims))
        if stop.asked:
            break
    written = () if pages is None or size == SMOKE else rebuild_pages(pages)
    return Reproduction(tuple(runs), written, stop.asked)


def expect_source_table(name: str, table: str) -> None:
    """Raise InputError unless the page of that source has a table of that name."""
    known = [own.name for own in load_source(name).tables]
    if table not in known:
        raise InputError(f"the page of {name} has no table {table!r}", hint=nearest(table, known))


def source_table(name: str, table: str, size: str = SIZES[0], *, pages: Path | str = PAGES) -> pd.DataFrame:
    """A table of a source's page, our numbers, as they are stored.

    Args:
        name: The source.
        table: The table's name, as the command below the table has it.
        size: laptop or full.
        pages: The folder of the pages.
    """
    expect_source_table(name, table)
    place = Path(pages) / "data" / name / size
    if not (place / "ran.json").exists():
        raise InputError(f"{name} was not run to its end at {size} size", where=str(place))
    (chosen,) = (own for own in load_source(name).tables if own.name == table)
    return our_table(chosen, read_summary(place))


def _run(study: StudyPlan, executor: str, watch: Watch, stop: Stop, tell: Callable[[str], None]) -> Counts:
    """One study, as far as it comes."""
    if stop.asked or not study.counts.left:
        return study.counts
    where = _where(study.study, executor)
    if where != executor:
        tell(f"{study.study.about.name} runs on this machine: its hosts are in a box")
    with _box(study), watch(study) as observer:
        return run_plan(study, observer=observer, stop=stop, executor=where).counts


@contextlib.contextmanager
def _box(study: StudyPlan) -> Iterator[None]:
    """The cluster in a box that a study is placed in, made for it unless it is up."""
    named = _boxes(study.study)
    missing = [name for name in named if name not in {net.name for net in nets()}] if named else []
    hosts = max(trial.resolved.workers for trial in study.trials) if missing else 0
    try:
        for name in missing:
            net_up(name, max(hosts, 2))
        yield
    finally:
        for name in missing:
            with contextlib.suppress(InputError):  # it was ended by somebody else
                net_down(name)


def _kept_summary(source_plan: SourcePlan, data: Path, executor: str, tell: Callable[[str], None]) -> Summary:
    """The small tables of the records, computed unless they are those of these very records."""
    place = data / source_plan.source.name / source_plan.size
    if (place / "ran.json").exists():
        stored = read_summary(place)
        if stored.ran.records == digest(source_plan.folders):
            return stored
    tell(f"summing up {source_plan.source.name}")
    commands = [_command(source_plan, study, executor) for study in source_plan.plans]
    write_summary(place, summarised(source_plan.source, source_plan.folders, commands))
    return read_summary(place)  # what others will read


def _command(source_plan: SourcePlan, study: StudyPlan, executor: str) -> str:
    """The command that repeats a study; one that was cut down has no file of its own."""
    words = ["steplab", "run", str(study.study.path), "--out", str(study.folder)]
    if source_plan.size == SMOKE:
        words = ["steplab", "sources", "--only", source_plan.source.name, "--size", SMOKE]
    where = _where(study.study, executor)
    return shlex.join([*words, *([] if where == LOCAL else ["--executor", where])])


def rebuild_pages(pages: Path | str = PAGES) -> tuple[Path, ...]:
    """Fill the pages of all sources from the stored tables; those that changed. Nothing is written if one cannot be.

    The page above them, beside their folder, has the verdicts of all; where there is none, as in a copy, none is made.
    """
    folder = Path(pages)
    paths = {name: folder / f"{name}.md" for name in source_names()}
    for path in paths.values():
        if not path.exists():
            raise InputError("there is no such page", where=str(path), hint="run it in a checkout, or give --pages DIR")
    published = published_tables(folder / "data")
    changes = {path: _changes(path, load_source(name), published) for name, path in paths.items()}
    index = folder.with_name(f"{folder.name}.md")
    if index.exists():
        changes[index] = _index_changes(index, folder / "data")
    for files in changes.values():
        for path, text in files.items():
            records.write_file(path, text.encode())
    return tuple(page for page, files in changes.items() if files)


def _index_changes(index: Path, data: Path) -> dict[Path, str]:
    """The page of all sources, if it is not as the stored tables say."""
    before = read_text(index, MOST_BYTES).replace("\r\n", "\n")
    every = [(source, read_summaries(data, source)) for source in map(load_source, source_names())]
    text = filled_index(before, every)
    return {index: text} if text != before else {}


def _changes(page: Path, source: Source, published: Tables) -> dict[Path, str]:
    """The files of a page, its pictures and itself, that are not as the stored tables say: what they should be."""
    data = page.parent / "data"
    summaries = read_summaries(data, source)
    text = filled(read_text(page, MOST_BYTES).replace("\r\n", "\n"), source, summaries, published)
    pictures = {
        data / source.name / size / f"{name}.svg": picture
        for (size, name), picture in drawings(source, summaries).items()
    }
    files = {**pictures, page: text}
    return {path: text for path, text in files.items() if not path.exists() or read_text(path, MOST_BYTES) != text}

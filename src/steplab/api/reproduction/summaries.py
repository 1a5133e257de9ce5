"""The small tables of the sources' records: written beside their pages, and read from there.

`data/published/` has what the sources printed, `data/NAME/SIZE/` our tables, and `ran.json` what they come from.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pandas as pd
from pydantic import TypeAdapter

from steplab.analysis.roofline.points import Roofline
from steplab.api.results.results import Results
from steplab.api.results.rooflines import ceilings, of_configuration
from steplab.core import atomic
from steplab.core.errors import StoreError
from steplab.core.files import read_regular
from steplab.core.parsing import parsing
from steplab.core.units import count
from steplab.costs.roofs import Ceilings
from steplab.sources.page import Ran, Summary
from steplab.sources.published import HEADERS, expect_published
from steplab.sources.source import SIZES, TRIALS, Measured, Source
from steplab.store import records
from steplab.store.paths import StudyFolder

PUBLISHED, RAN = "published", "ran.json"
LARGEST = 20_000_000  # bytes of a table
DIGITS = "%.6g"


def published_tables(data: Path) -> dict[str, pd.DataFrame]:
    """The tables that the sources printed, by name."""
    return {
        name: _read_table(data / PUBLISHED / f"{name}.csv", partial(expect_published, name)) for name in sorted(HEADERS)
    }


def read_summaries(data: Path, source: Source) -> dict[str, Summary]:
    """The stored tables of each size that was run."""
    places = {size: data / source.name / size for size in SIZES}
    return {size: read_summary(place) for size, place in places.items() if (place / RAN).exists()}


def read_summary(place: Path) -> Summary:
    """The tables in a folder, and what they come from."""
    tables = {path.stem: _read_table(path) for path in sorted(place.glob("*.csv"))}
    return Summary(tables, _read_ran(place / RAN), str(place))


def _read_ran(path: Path) -> Ran:
    with parsing("is not a summary", str(path), hint="remove its folder, and run the source again"):
        return TypeAdapter(Ran).validate_json(read_regular(path, LARGEST), strict=True)


def _read_table(path: Path, expect: Callable[[pd.DataFrame], None] = lambda table: None) -> pd.DataFrame:
    with parsing("is not a table", str(path)):
        content = read_regular(path, LARGEST)
        table = pd.read_csv(io.BytesIO(content)) if content.strip() else pd.DataFrame()
        if not isinstance(table.index, pd.RangeIndex):
            raise ValueError("its rows have more cells than its header")
        expect(table)
        return table


def write_summary(place: Path, summary: Summary) -> None:
    """Write the tables, and last what they come from: without that, there is no summary.

    All are written aside first: what was stored before goes only when they are whole.
    """
    texts = {f"{name}.csv": _csv(table) for name, table in summary.tables.items()}
    ran = json.dumps(asdict(summary.ran), indent=1, ensure_ascii=False) + "\n"
    try:
        with atomic.folder(place) as aside:
            for name, text in (*texts.items(), (RAN, ran)):
                records.write_file(aside / name, text.encode())
            place.mkdir(exist_ok=True)
            _bring(aside, place, list(texts))
    except OSError as error:
        raise StoreError(f"{place}: cannot be written ({error.strerror})") from None


def _bring(aside: Path, place: Path, tables: Sequence[str]) -> None:
    """Move whole files to their place; meanwhile nobody takes old and new tables for one summary."""
    (place / RAN).unlink(missing_ok=True)
    for name in tables:
        (aside / name).replace(place / name)
    for old in place.glob("*.csv"):
        if old.name not in tables:
            old.unlink()
    (aside / RAN).replace(place / RAN)


def _csv(table: pd.DataFrame) -> str:
    """A table without rows keeps its columns; one without columns is an empty file."""
    return table.to_csv(index=False, float_format=DIGITS, lineterminator="\n") if len(table.columns) else ""


def summarised(source: Source, folders: Sequence[Path], commands: Sequence[str]) -> Summary:
    """The records of a source's studies as small tables."""
    opened = [Results(folder) for folder in folders]
    tables = source.summary([_measured(results) for results in opened])
    return Summary(tables, _ran(opened, tables[TRIALS], commands))


def digest(folders: Sequence[Path]) -> str:
    """A digest of the records in the folders: of which trial, when, how it ended. Measured again it is another one."""
    places = [StudyFolder(folder) for folder in folders]
    heads = [head for place in places for head in records.read_heads(place, sorted(records.done(place)))]
    told = [f"{head.trial} {head.started} {head.status} {head.seconds!r}" for head in heads]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _measured(results: Results) -> Measured:
    return Measured(results.trials, results.factors, results.tables.iterations, partial(_rooflines, results))


def _rooflines(results: Results) -> Mapping[str, Roofline]:
    """The roofline of each trial below this machine's ceilings, which are measured once and kept."""
    roofs: Ceilings = ceilings()
    trials = results.trials[results.trials["status"] == "ok"]
    folder = StudyFolder(results.folder)
    return {
        str(name): of_configuration(records.read_record(folder, str(name)), rows, results.layers, roofs)
        for name, rows in trials.groupby("trial", sort=False)
    }


def _ran(opened: Sequence[Results], trials: pd.DataFrame, commands: Sequence[str]) -> Ran:
    every = pd.concat([results.trials for results in opened], ignore_index=True)
    statuses = every["status"]
    ok = int((statuses == "ok").sum())
    unsupported = int((statuses == "unsupported").sum())
    return Ran(
        commands=tuple(commands),
        folders=tuple(str(results.folder) for results in opened),
        trials=ok,
        failed=len(every) - ok - unsupported,
        unsupported=unsupported,
        seconds=float(every["seconds"].sum()),
        day=str(every["started"].dropna().max())[:10],
        machine=_machine(opened),
        versions=_versions(trials),
        records=digest([results.folder for results in opened]),
    )


def _versions(trials: pd.DataFrame) -> dict[str, str]:
    if "version" not in trials.columns:
        return {}
    return {str(name): str(version) for name, version in trials.groupby("framework")["version"].first().items()}


def _machine(opened: Sequence[Results]) -> str:
    """The machine of the first measured trial's rank 0, without its name."""
    measured = ((results, results.trials.loc[results.trials["status"] == "ok", "trial"]) for results in opened)
    results, trials = next((results, trials) for results, trials in measured if len(trials))
    there = records.read_record(StudyFolder(results.folder), str(trials.iloc[0])).machine
    memory = f", {count(there.memory_bytes)}B" if there.memory_bytes else ""
    return f"{there.cpu or 'an unknown CPU'}, {there.cpus} CPUs{memory}{', ' + there.gpus if there.gpus else ''}"

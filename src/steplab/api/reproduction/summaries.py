"""The small tables of the sources' records: written beside their pages, and read from there.

`data/published/` has what the sources printed, `data/NAME/SIZE/` our tables, and `ran.json` what they come from.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pandas as pd

from steplab.analysis.roofline.points import Roofline
from steplab.api.results.results import Results
from steplab.api.results.rooflines import ceilings, of_configuration
from steplab.core.files import read_regular
from steplab.core.parsing import parsing
from steplab.core.units import count
from steplab.costs.roofs import Ceilings
from steplab.sources.page import Ran, Summary
from steplab.sources.source import SIZES, TRIALS, Measured, Source
from steplab.store import records
from steplab.store.paths import StudyFolder

PUBLISHED, RAN = "published", "ran.json"
LARGEST = 20_000_000  # bytes of a table
DIGITS = "%.6g"


def published_tables(data: Path) -> dict[str, pd.DataFrame]:
    """The tables that the sources printed, by name."""
    return {path.stem: _read_table(path) for path in sorted((data / PUBLISHED).glob("*.csv"))}


def read_summaries(data: Path, source: Source) -> dict[str, Summary]:
    """The stored tables of each size that was run."""
    places = {size: data / source.name / size for size in SIZES}
    return {size: read_summary(place) for size, place in places.items() if (place / RAN).exists()}


def read_summary(place: Path) -> Summary:
    """The tables in a folder, and what they come from."""
    with parsing("is not a summary", str(place / RAN)):
        told = json.loads(read_regular(place / RAN, LARGEST))
        lists = {name: tuple(told[name]) for name in ("commands", "folders")}
        ran = Ran(**{**told, **lists})
    return Summary({path.stem: _read_table(path) for path in sorted(place.glob("*.csv"))}, ran)


def _read_table(path: Path) -> pd.DataFrame:
    with parsing("is not a table", str(path)):
        content = read_regular(path, LARGEST)
        return pd.read_csv(io.BytesIO(content)) if content.strip() else pd.DataFrame()


def write_summary(place: Path, summary: Summary) -> None:
    """Write the tables, and last what they come from: without that, there is no summary."""
    place.mkdir(parents=True, exist_ok=True)
    (place / RAN).unlink(missing_ok=True)
    for old in place.glob("*.csv"):
        old.unlink()
    for name, table in summary.tables.items():
        # A table without rows keeps its columns; one without columns is an empty file.
        text = table.to_csv(index=False, float_format=DIGITS, lineterminator="\n") if len(table.columns) else ""
        records.write_file(place / f"{name}.csv", text.encode())
    records.write_file(place / RAN, (json.dumps(asdict(summary.ran), indent=1, ensure_ascii=False) + "\n").encode())


def summarised(source: Source, folders: Sequence[Path], commands: Sequence[str]) -> Summary:
    """The records of a source's studies as small tables."""
    opened = [Results(folder) for folder in folders]
    tables = source.summary([_measured(results) for results in opened])
    return Summary(tables, _ran(opened, tables[TRIALS], commands))


def digest(folders: Sequence[Path]) -> str:
    """A digest of the records in the folders, of which trial and when: another one means other measurements."""
    places = [StudyFolder(folder) for folder in folders]
    heads = [head for place in places for head in records.read_heads(place, sorted(records.done(place)))]
    return hashlib.sha256(" ".join(f"{head.trial} {head.started}" for head in heads).encode()).hexdigest()[:16]


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

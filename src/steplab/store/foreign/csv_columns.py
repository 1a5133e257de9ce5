"""Which column of somebody's table is what: times, keys, factors; by what a person says, otherwise by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from steplab.core import catalogue
from steplab.core.errors import TableError, allowed, nearest
from steplab.store.source import Source, clean_name
from steplab_worker.phases import ITERATION, MEASURED, TABLE

KEYS = ("replicate", "rank", "iteration")
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
UNIT_WORDS = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "millis": "ms", "milliseconds": "ms",
    "usec": "us", "micros": "us", "microseconds": "us", "nanoseconds": "ns",
}  # fmt: skip
ALIASES = {
    **{phase.name: phase.aliases for phase in TABLE if phase.name in MEASURED},
    "replicate": "rep repetition repeat run trial",
    "rank": "worker_id process gpu_id",
    "iteration": "iter step batch_index it",
    "workers": "world_size n_workers gpus n_gpus num_gpus gpu_count devices n_devices num_devices processes "
    "n_processes num_processes ranks n_ranks num_ranks np nprocs num_replicas replicas num_workers "
    "nodes n_nodes num_nodes hosts",
    "batch_size": "batch bs batchsize mini_batch",
    "global_batch_size": "global_batch",
    "network": "net model architecture arch",
    "learning_rate": "lr",
}
NODES = ("nodes", "n_nodes", "num_nodes", "hosts")  # workers only where nothing finer is counted
PHASE_NAMES = re.compile(r"(phase|part|stage|region|metric|operation|op|kind|what|name)s?$")
MEANING = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases.split())}
SPREAD = re.compile(
    r"(std|stdev|sd|var|sem|err|error|low|high|ci|min|max)(_|$)|.*_(std|sd|var|sem|low|high|min|max)(_|$)"
)
VALUE = re.compile(r"(mean|median|value|time|seconds|duration|avg|average|t)(_\w+)?$")


@dataclass(frozen=True)
class Roles:
    """The columns of a table by what they are; in a long table `phase` names phases and `value` holds their times."""

    times: Mapping[str, str]
    keys: Mapping[str, str]
    factors: Mapping[str, str]  # the name in steplab and the table's column
    units: Mapping[str, str]  # of the table's columns
    phase: str = ""
    value: str = ""
    notes: tuple[str, ...] = ()


def named(column: str) -> str:
    """What a column is by its name, or an empty string.

    >>> named("fwd_ms"), named("t_iter_s"), named("Step Time"), named("nodes"), named("colour")
    ('t_f', 't_iter', 't_iter', 'workers', '')
    >>> named("latency_us"), named("seconds"), named("step"), named("step_ms")
    ('t_iter', 't_iter', 'iteration', 't_iter')
    """
    bare = _bare(column)
    stem, unit = _split(bare)
    if bare in MEANING or not unit:
        return MEANING.get(bare, "")
    # With a unit of time it is one: milliseconds of a step, not the number of the step.
    meaning = MEANING.get(stem, "")
    return ITERATION if meaning in ("iteration", "batch_size") else meaning if meaning in MEASURED else ""


def _bare(column: str) -> str:
    return re.sub(r"\W+", "_", column.strip().lower())


def _preference(column: str, meaning: str) -> int:
    """Columns that may mean the same: its own name first, then in the order of the aliases."""
    names = (meaning, *ALIASES[meaning].split())
    bare = _bare(column)
    stem = bare if bare in names else _split(bare)[0]
    return names.index(stem) if stem in names else len(names)


def _split(name: str) -> tuple[str, str]:
    """A name and the unit it ends with."""
    bare, _, last = name.rpartition("_")
    unit = UNIT_WORDS.get(last, last)
    return (bare, unit) if bare and unit in SECONDS else (name, "")


def roles(source: Source, stated: Mapping[str, str], factors: Sequence[str], where: str) -> Roles:
    """Decide what each column is; what a person says comes first."""
    frame = source.frame
    columns = [str(name) for name in frame.columns]
    known = _stated(stated, columns, where)
    phase = _phase_column(frame, [name for name in columns if name not in known.values()])
    candidates = [column for column in columns if column not in known.values() and column != phase]
    known |= {name: column for name, column in _guessed(frame, candidates).items() if name not in known}
    times = {name: column for name, column in known.items() if name in MEASURED}
    rest = [column for column in columns if column not in known.values() and column != phase]
    value = _value_column(frame, times, rest, where) if phase else ""
    rest = [column for column in rest if column != value]
    if not times and not phase:
        hint = "name it: --columns t_iter=COLUMN; " + allowed(columns)
        raise TableError("no column is a time", where=where, hint=hint)
    general = {name: column for name, column in known.items() if name not in MEASURED and name not in KEYS}
    kept, left = _factors(frame, general, rest, factors, where)
    guessed = [f"column {column!r} is read as {name}" for name, column in known.items() if name != column]
    notes = [*guessed, *([f"left out: {', '.join(left)} (--factors keeps a column)"] if left else [])]
    keys = {name: column for name, column in known.items() if name in KEYS and column not in kept.values()}
    units = {column: _unit(column, source.units, where) for column in (*times.values(), *filter(None, [value]))}
    return Roles({} if phase else times, keys, kept, units, phase, value, tuple(notes))


def _guessed(frame: pd.DataFrame, columns: Sequence[str]) -> dict[str, str]:
    """The columns by what their names mean, in the table's order; of several with one meaning the likeliest."""
    by_meaning: dict[str, list[str]] = {}
    for column in columns:
        meaning = named(column)
        if meaning:
            by_meaning.setdefault(meaning, []).append(column)
    return {meaning: _likeliest(frame, meaning, several) for meaning, several in by_meaning.items()}


def _likeliest(frame: pd.DataFrame, meaning: str, columns: Sequence[str]) -> str:
    ordered = sorted(columns, key=lambda column: _preference(column, meaning))
    nodes = next((column for column in ordered if _bare(column) in NODES), None)
    first = ordered[0]
    if meaning == "workers" and nodes and nodes != first and _is_per_node(frame[first], frame[nodes]):
        return nodes
    return first


def _is_per_node(counts: pd.Series, nodes: pd.Series) -> bool:
    """Whether the GPUs are those of each node: they stay the same while the nodes vary, or are fewer than these."""
    if not all(pd.api.types.is_numeric_dtype(column) for column in (counts, nodes)):
        return False
    return bool((counts.nunique() == 1 and nodes.nunique() > 1) or (counts < nodes).any())


def _stated(stated: Mapping[str, str], columns: Sequence[str], where: str) -> dict[str, str]:
    """What a person said, checked; a column may be named as written in the file."""
    known = {}
    for name, column in stated.items():
        if name not in MEANING.values() and not name.isidentifier():
            raise TableError(f"{name!r} is not a name", where="columns", hint=allowed(dict.fromkeys(MEANING.values())))
        known[name] = _existing(column, columns, f"{where}, --columns")
    return known


def _existing(column: str, columns: Sequence[str], where: str) -> str:
    for spelling in (column, clean_name(column)):
        if spelling in columns:
            return spelling
    raise TableError(f"there is no column {column!r}", where=where, hint=nearest(column, columns))


def _phase_column(frame: pd.DataFrame, columns: Sequence[str]) -> str:
    """The column of a long table whose words are all phases."""
    for column in columns:
        words = list(frame[column].dropna().unique()) if frame[column].dtype == object else []
        # One word alone may be anything: a strategy that is called sync is no exchange of gradients.
        several = len(words) > 1 or (words and PHASE_NAMES.search(column.lower()))
        if several and all(named(str(word)) in MEASURED for word in words):
            return column
    return ""


def _value_column(frame: pd.DataFrame, times: Mapping[str, str], rest: Sequence[str], where: str) -> str:
    numeric = [name for name in (*times.values(), *rest) if pd.api.types.is_numeric_dtype(frame[name])]
    likely = [name for name in numeric if VALUE.match(name.lower()) and not SPREAD.match(name.lower())]
    if len(likely) == 1 or (not likely and len(numeric) == 1):
        return (likely or numeric)[0]
    what = "it is not clear which column holds the phases' times"
    raise TableError(what, where=where, hint="name it: --columns t_iter=COLUMN")


def _factors(
    frame: pd.DataFrame, general: Mapping[str, str], rest: Sequence[str], asked: Sequence[str], where: str
) -> tuple[dict[str, str], list[str]]:
    """The varied columns, and those that are left out: spreads, and numbers that are no counts."""
    if asked:
        columns = [_existing(name, list(map(str, frame.columns)), f"{where}, --factors") for name in asked]
        meant = {column: name for name, column in general.items()}
        kept = {meant.get(column, column): column for column in columns}
        return kept, [column for column in (*general.values(), *rest) if column not in kept.values()]
    known = set(catalogue.general())
    kept, left = dict(general), []
    for column in rest:
        values = frame[column]
        numeric = pd.api.types.is_numeric_dtype(values)
        whole = numeric and bool((values.dropna() % 1 == 0).all())
        if SPREAD.match(column.lower()) or not (column in known or whole or not numeric):
            left.append(column)
        else:
            kept[column] = column
    return kept, left


def _unit(column: str, units: Mapping[str, str], where: str) -> str:
    """The unit that a column says itself: beside its numbers, in brackets or at its name's end."""
    stated = units.get(column, "")
    unit = UNIT_WORDS.get(stated.lower(), stated.lower()) if stated else _split(column.lower())[1]
    unit = unit or UNIT_WORDS.get(_bare(column), "")
    if unit and unit not in SECONDS:
        raise TableError(
            f"{stated!r} is not a unit of time", where=f"{where}, column {column!r}", hint=allowed(SECONDS)
        )
    return unit

"""Extra-P's text and JSON-lines formats: written from a study's trials, and read as a study.

Text: PARAMETER names, POINTS their values, then for each REGION and METRIC one DATA line per point with its repeated
values; at most four parameters. JSON lines: one object with params, callpath, metric and value per measurement. Both
as documented in file-formats.md of https://github.com/extra-p/extrap. Extra-P's parameters are numbers, so the
levels of other factors make the region's name (`framework=torch,network=lenet5`), and reading takes them apart again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from steplab.core.errors import InputError, TableError, allowed
from steplab.core.parsing import parsing, read_text
from steplab.core.trial import Level, plain_level
from steplab.store.foreign.csv_columns import named
from steplab.store.foreign.imported import ForeignStudy
from steplab.store.foreign.times_csv import Times, study_of
from steplab.store.source import clean_name
from steplab.store.tables import Tables
from steplab_worker.phases import ITERATION, MEASURED, REST, SHARES

MOST_PARAMETERS = 4
MOST_BYTES = 200 << 20
REGION = "step"
Point = tuple[float, ...]


@dataclass(frozen=True)
class Exported:
    """A study in Extra-P's words."""

    text: str
    parameters: tuple[str, ...]
    points: int


def extrap_text(tables: Tables, *, as_lines: bool) -> Exported:
    """The trials of a study as Extra-P reads them; replicates are the repeated values of a point."""
    ok = tables.trials[tables.trials["status"] == "ok"] if len(tables.trials) else tables.trials
    varied = [name for name in tables.factors if name in ok and ok[name].nunique(dropna=False) > 1]
    parameters = [name for name in varied if pd.api.types.is_numeric_dtype(ok[name]) and ok[name].dtype != bool]
    if not parameters:
        what = "no factor with numbers varies, and Extra-P models nothing else"
        raise TableError(what, hint="vary batch_size or workers")
    words = [name for name in varied if name not in parameters]
    metrics = [name for name in (ITERATION, *SHARES) if name in ok and ok[name].notna().any()]
    values = {
        (point, region, metric): repeated
        for (point, region), rows in _groups(ok, parameters, words)
        for metric in metrics
        if (repeated := rows[metric].dropna().tolist())
    }
    text = _lines(values, parameters) if as_lines else _text(values, parameters)
    return Exported(text, tuple(parameters), len({point for point, _, _ in values}))


def _groups(ok: pd.DataFrame, parameters: list[str], words: list[str]) -> Iterator[tuple[tuple[Point, str], Any]]:
    for key, rows in ok.groupby([*parameters, *words], sort=True, dropna=False):
        levels: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)
        point = tuple(float(level) for level in levels[: len(parameters)])
        named_levels = zip(words, levels[len(parameters) :], strict=True)
        region = ",".join(f"{name}={_word(level)}" for name, level in named_levels)
        yield (point, region or REGION), rows.sort_values("replicate")


def _word(level: object) -> str:
    return re.sub(r"[\s,=]+", "_", str(level)) or "_"


Values = Mapping[tuple[Point, str, str], list[float]]


def _text(values: Values, parameters: Sequence[str]) -> str:
    if len(parameters) > MOST_PARAMETERS:
        what = f"{len(parameters)} factors with numbers vary, and Extra-P's text format takes {MOST_PARAMETERS}"
        raise TableError(what, hint="write JSON lines: extrap:FILE.jsonl")
    points = sorted({point for point, _, _ in values})
    lines = [f"PARAMETER {name}" for name in parameters]
    lines.append("POINTS " + " ".join(f"( {' '.join(map(_number, point))} )" for point in points))
    for region, metric in dict.fromkeys((region, metric) for _, region, metric in values):
        lines += ["", f"REGION {region}", f"METRIC {metric}"]
        for point in points:
            if (point, region, metric) not in values:
                what = f"{metric} of {region} is missing at some point, which Extra-P's text format cannot say"
                raise TableError(what, hint="write JSON lines: extrap:FILE.jsonl")
            lines.append("DATA " + " ".join(repr(value) for value in values[point, region, metric]))
    return "\n".join(lines) + "\n"


def _lines(values: Values, parameters: Sequence[str]) -> str:
    measurements = []
    for (point, region, metric), repeated in values.items():
        params = {
            name: int(value) if value.is_integer() else value for name, value in zip(parameters, point, strict=True)
        }
        measurements += [{"params": params, "callpath": region, "metric": metric, "value": value} for value in repeated]
    return "".join(json.dumps(measurement) + "\n" for measurement in measurements)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


@dataclass(frozen=True)
class Measurement:
    """Repeated values of one metric of one region at one point."""

    point: tuple[tuple[str, float], ...]
    region: str
    metric: str
    values: tuple[float, ...]


def read_extrap(path: Path, region: str = "", constants: Mapping[str, Level] | None = None) -> ForeignStudy:
    """A file in Extra-P's text or JSON-lines format as a study; `region` chooses among several."""
    text = _content(path)
    measurements = list(_parsed_lines(text, path) if text.lstrip()[:1] == "{" else _parsed(text, path))
    if not measurements:
        raise InputError("holds no measurement", where=str(path), hint="give Extra-P's text or JSON-lines format")
    notes: list[str] = []
    table = _table(
        [measurement for measurement in measurements if not region or measurement.region == region], str(path), notes
    )
    return study_of(table, [path], "extrap", constants or {}, notes)


def _content(path: Path) -> str:
    return read_text(path, MOST_BYTES)


def _parsed(text: str, path: Path) -> Iterator[Measurement]:
    """The measurements of the text format."""
    parameters: list[str] = []
    points: list[Point] = []
    region, metric, at = REGION, "t_iter", 0
    for number, line in enumerate(text.splitlines(), start=1):
        field, _, value = line.strip().partition(" ")
        where = f"{path}, line {number}"
        if not field or field.startswith("#"):
            continue
        if field == "PARAMETER":
            if points:
                raise InputError("PARAMETER comes after POINTS, which it is a part of", where=where)
            parameters += value.split()
        elif field == "POINTS":
            points += _points(value, len(parameters), where)
        elif field in ("REGION", "METRIC"):
            region, metric = (value.strip(), metric) if field == "REGION" else (region, value.strip())
            at = 0
        elif field == "DATA":
            if at >= len(points):
                raise InputError(f"there are more DATA lines than the {len(points)} POINTS", where=where)
            place = tuple(zip(parameters, points[at], strict=True))
            yield Measurement(place, region, metric, _numbers(value, where))
            at += 1
        else:
            hint = allowed(["PARAMETER", "POINTS", "REGION", "METRIC", "DATA"])
            raise InputError(f"unknown field {field[:40]!r}", where=where, hint=hint)


def _points(value: str, parameters: int, where: str) -> list[Point]:
    """`( 1 2 ) ( 3 4 )`, or for one parameter also `1 3`."""
    if not parameters:
        raise InputError("POINTS come before any PARAMETER", where=where)
    groups = re.findall(r"\(([^()]*)\)", value) if "(" in value else value.split()
    points = [_numbers(group, where) for group in groups]
    wrong = next((point for point in points if len(point) != parameters), None)
    if wrong is not None:
        raise InputError(f"a point has {len(wrong)} numbers for {parameters} parameters", where=where)
    return points


def _numbers(text: str, where: str) -> Point:
    try:
        numbers = tuple(float(part) for part in text.split())
    except ValueError:
        raise InputError(f"{text.strip()[:40]!r} are not numbers", where=where) from None
    if not numbers or not all(map(math.isfinite, numbers)):
        raise InputError("there is no finite number", where=where)
    return numbers


def _parsed_lines(text: str, path: Path) -> Iterator[Measurement]:
    """The measurements of the JSON-lines format; a region's repeated values stand on lines of their own."""
    gathered: dict[tuple[Any, str, str], list[float]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        hint = 'write {"params": {"workers": 2}, "callpath": "step", "metric": "time", "value": 0.1}'
        with parsing("is not a measurement", where, hint=hint):
            document = json.loads(line)
            point = tuple((str(name), float(value)) for name, value in document["params"].items())
            values = document["value"] if isinstance(document["value"], list) else [document["value"]]
            key = (point, str(document.get("callpath", REGION)), str(document.get("metric", "t_iter")))
            numbers = [float(value) for value in values]
        if not all(map(math.isfinite, numbers)) or not all(math.isfinite(value) for _, value in point):
            raise InputError("there is no finite number", where=where)
        gathered.setdefault(key, []).extend(numbers)
    yield from (Measurement(*key, tuple(values)) for key, values in gathered.items())


def _table(measurements: Sequence[Measurement], where: str, notes: list[str]) -> Times:
    """The measurements as a table with a row for each repetition of each point."""
    if not measurements:
        raise InputError("there is no such region", where=f"{where}, --region")
    columns = _columns(measurements, where, notes)
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    factors: dict[str, None] = {}
    for measurement in measurements:
        bare, words = _taken_apart(measurement.region)
        column = columns.get((bare, measurement.metric))
        if column is None:
            continue
        config = {**{_identifier(name): _plain(value) for name, value in measurement.point}, **words}
        factors |= dict.fromkeys(config)
        for replicate, value in enumerate(measurement.values):
            key = (*config.items(), replicate)
            rows.setdefault(key, {**config, "replicate": replicate})[column] = value
    frame = pd.DataFrame(list(rows.values()))
    _no_negative(frame, where)
    return Times(frame, tuple(factors))


def _no_negative(frame: pd.DataFrame, where: str) -> None:
    for name in (name for name in MEASURED if name in frame):
        if (frame[name] < 0).any():
            raise InputError(f"a value of {name} is negative", where=where)


def _identifier(name: str) -> str:
    return clean_name(name)


def _plain(value: float) -> Level:
    return plain_level(int(value) if value.is_integer() and abs(value) < 2**53 else value)


def _taken_apart(region: str) -> tuple[str, dict[str, str]]:
    """A region and the levels in its name.

    >>> _taken_apart("framework=torch,network=lenet5"), _taken_apart("main->solve")
    (('step', {'framework': 'torch', 'network': 'lenet5'}), ('main->solve', {}))
    """
    parts = [part.partition("=") for part in region.split(",")]
    if all(name.isidentifier() and equals and value for name, equals, value in parts):
        return REGION, {name: value for name, _, value in parts}
    return region, {}


def _columns(measurements: Sequence[Measurement], where: str, notes: list[str]) -> dict[tuple[str, str], str]:
    """Which time each metric of each region is; t_other is computed anew, so it is passed over."""
    pairs = list(
        dict.fromkeys((_taken_apart(measurement.region)[0], measurement.metric) for measurement in measurements)
    )
    meant: dict[tuple[str, str], str] = {}
    for region, metric in pairs:
        by_metric, by_region = named(metric), named(region)
        column = by_region if by_region in MEASURED and by_metric in ("", "t_iter") else by_metric
        if column in MEASURED:
            meant[region, metric] = column
    if not meant and len(pairs) == 1:
        meant[pairs[0]] = "t_iter"
        notes.append(f"The metric {pairs[0][1]!r} of {pairs[0][0]!r} is read as t_iter.")
    times = Counter(meant.values())
    twice = [pair for pair in meant if times[meant[pair]] > 1]
    regions = list(dict.fromkeys(region for region, _ in twice or pairs))
    if twice or not meant:
        what = "several regions have times" if twice else "no metric is a time"
        hint = f"choose one with --region; {allowed(regions[:20])}" if twice else "rename the metric to t_iter"
        raise InputError(what, where=where, hint=hint)
    left = [metric for region, metric in pairs if (region, metric) not in meant and metric != REST]
    if left:
        notes.append(f"Left out, for they are no times: {', '.join(dict.fromkeys(left))}.")
    return meant

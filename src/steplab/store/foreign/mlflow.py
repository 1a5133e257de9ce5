"""Writes a study's trials as runs of an MLflow file store: an experiment per study, a run per trial.

The layout is MLflow's own: <experiment>/meta.yaml, <run>/meta.yaml, and in each run a file per parameter, metric and
tag; a metric's lines are `milliseconds value step` (mlflow.org, "Tracking", "Backend stores"). Written without MLflow,
whose smallest package brings some thirty others; the tests read it with that package.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from steplab.core.errors import TableError
from steplab.core.files import readable
from steplab.store.columns import ALWAYS
from steplab.store.foreign.imported import appearing
from steplab.store.tables import Tables

FINISHED, FAILED = 3, 4  # RunStatus in MLflow's service.proto
LOCAL = 4  # SourceType
TAGS = ("trial", "status", "kind", "reason", "host", "version", "energy_provenance", "data_source", "verdict", "doubts")
LONGEST = 6000  # characters of a parameter or tag that MLflow takes


def write_mlflow(tables: Tables, name: str, out: Path) -> int:
    """Write the trials of a study; how many runs there are."""
    trials = tables.trials
    if not len(trials):
        raise TableError("the study has no trials to export")
    name = readable(name)
    experiment = str(int(hashlib.sha256(name.encode()).hexdigest()[:15], 16))
    began = min(_milliseconds(row["started"]) for _, row in trials.iterrows())
    with appearing(out) as place:
        (place / ".trash").mkdir()
        folder = place / experiment
        folder.mkdir()
        about = {"artifact_location": _uri(out / experiment), "creation_time": began, "experiment_id": experiment}
        about |= {"last_update_time": began, "lifecycle_stage": "active", "name": name}
        _write(folder / "meta.yaml", _yaml(about))
        for _, row in trials.iterrows():
            _run(folder, out / experiment, experiment, {str(n): v for n, v in row.items()}, tables.factors)
    return len(trials)


def _run(folder: Path, final: Path, experiment: str, row: Mapping[str, Any], factors: tuple[str, ...]) -> None:
    """One trial: what was varied as parameters, numbers as metrics, words as tags."""
    run = hashlib.sha256(f"{row['trial']}".encode()).hexdigest()[:32]
    start = _milliseconds(row["started"])
    end = start + int(1000 * float(row["seconds"]))
    place = folder / run
    for name in ("params", "metrics", "tags", "artifacts"):
        (place / name).mkdir(parents=True)
    parameters = {name: row[name] for name in dict.fromkeys((*ALWAYS, *factors, "replicate")) if name in row}
    for name, value in parameters.items():
        if not _missing(value):
            _write(place / "params" / _safe(name), str(value)[:LONGEST])
    for name, value in row.items():
        if name not in parameters and _is_number(value):
            _write(place / "metrics" / _safe(name), f"{end} {float(value)!r} 0\n")
    tags = {name: row[name] for name in TAGS if name in row and not _missing(row[name])} | {
        "mlflow.runName": row["trial"]
    }
    for name, value in tags.items():
        _write(place / "tags" / name, str(value)[:LONGEST])
    about = {"artifact_uri": _uri(final / run / "artifacts"), "end_time": end, "entry_point_name": ""}
    about |= {"experiment_id": experiment, "lifecycle_stage": "active", "run_id": run, "run_name": row["trial"]}
    about |= {
        "run_uuid": run,
        "source_name": "steplab",
        "source_type": LOCAL,
        "source_version": "",
        "start_time": start,
    }
    about |= {"status": FINISHED if row["status"] == "ok" else FAILED, "tags": [], "user_id": "steplab"}
    _write(place / "meta.yaml", _yaml(about))


def _yaml(about: Mapping[str, object]) -> str:
    """Plain values as YAML, of which JSON is a part."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in sorted(about.items()))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _uri(path: Path) -> str:
    return path.absolute().as_uri()


def _safe(name: object) -> str:
    """A name that MLflow takes: letters, digits, `_ - . /` and blanks."""
    return re.sub(r"[^\w\-. ]", "_", str(name), flags=re.ASCII)[:200]


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and not np.isnan(float(value))


def _milliseconds(started: object) -> int:
    """When a trial began, since 1970; what nobody wrote down is 0."""
    try:
        moment = datetime.fromisoformat(str(started))
    except ValueError:
        return 0
    return int(1000 * (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())

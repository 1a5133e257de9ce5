"""A study cut down to a moment: whether it runs at all, in its real frameworks.

Of every factor its first level, or the low end of its range; one replicate; one warm-up and two measured iterations,
one epoch; at most 64 generated samples; on this machine, whatever `placement` says. The numbers mean nothing.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steplab.study.file import parse_study, read_study
from steplab.study.sections import Study

SMOKE = "smoke"
SAMPLES = 64
ELSEWHERE = ("placement", "rate", "nodes", "ranks_per_node")
MEASURE = {"warmup": 1, "iterations": 2, "retries": 0}


def smoke_study(path: Path, name: str) -> Study:
    """The study of a file, cut down, under another name."""
    study = read_study(path)
    return parse_study(smoke_text(study.text, name), path)


def smoke_text(text: str, name: str) -> str:
    """The text of a study file, cut down."""
    tables = tomllib.loads(text)
    factors = {key: _first(value) for key, value in tables["factors"].items() if key not in ELSEWHERE}
    measure = {key: value for key, value in tables.get("measure", {}).items() if key in ("phases", "timeout_s")}
    sections = {
        "study": {**tables["study"], "name": name},
        "factors": factors,
        "design": {"replicates": 1, "seed": tables.get("design", {}).get("seed", 1)},
        "measure": measure | MEASURE,
        "data": {"samples": SAMPLES},
    }
    if "train" in tables:
        sections["train"] = {"epochs": 1, "validation_samples": SAMPLES}
    return "\n".join(line for title, fields in sections.items() for line in _section(title, fields)) + "\n"


def _first(value: Any) -> Any:
    """The first level, or the low end of a range."""
    if isinstance(value, dict):
        return value["low"]
    return value[0] if isinstance(value, list) else value


def _section(title: str, fields: dict[str, Any]) -> Iterator[str]:
    """A section in TOML; a plain value is written as JSON writes it."""
    yield f"[{title}]"
    for name, value in fields.items():
        yield f"{name} = {json.dumps(value, ensure_ascii=False)}"

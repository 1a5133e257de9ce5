"""Saved models: written in one atomic step, read with every fault as one sentence."""

from __future__ import annotations

from pathlib import Path

import orjson

from steplab.core.errors import ModelError, StoreError
from steplab.core.files import read_regular
from steplab.core.parsing import parsing
from steplab.models import model_from_document
from steplab.models.base import PerformanceModel
from steplab.store.records import write_file

MOST_BYTES = 256 << 20  # a forest of many trees has some megabytes


def write_model(model: PerformanceModel, path: Path) -> None:
    """Write a model's JSON document; the file is complete or it is not there."""
    content = orjson.dumps(model.to_document(), option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path.parent}: cannot be made ({error.strerror})") from None
    write_file(path, content + b"\n")


def read_model(path: Path) -> PerformanceModel:
    """The model in a file."""
    with parsing("this is not a JSON document", str(path), ModelError):
        document = orjson.loads(read_regular(path, MOST_BYTES))
    try:
        return model_from_document(document)
    except ModelError as error:
        raise ModelError(error.what, where=str(path), hint=error.hint) from error

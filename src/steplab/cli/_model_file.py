"""Saved models: written in one atomic step, read with every fault as one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steplab.core.errors import ModelError, StoreError

if TYPE_CHECKING:
    from steplab.models.base import PerformanceModel


def write_model(model: PerformanceModel, path: Path) -> None:
    """Write a model's JSON document; the file is complete or it is not there."""
    import orjson

    from steplab.store.records import write_file

    content = orjson.dumps(model.to_document(), option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path.parent}: cannot be made ({error.strerror})") from None
    write_file(path, content + b"\n")


def read_model(path: Path) -> PerformanceModel:
    """The model in a file."""
    import orjson

    from steplab.models import model_from_document

    try:
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"it cannot be read ({error.strerror})", where=str(path)) from error
    except orjson.JSONDecodeError as error:
        raise ModelError("this is not a JSON document", where=str(path)) from error
    try:
        return model_from_document(document)
    except ModelError as error:
        raise ModelError(error.what, where=str(path), hint=error.hint) from error

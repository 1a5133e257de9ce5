"""Tries a study's ONNX files before anything is measured, and says what they consist of: a helper of the laboratory."""

from __future__ import annotations

import numpy as np

from steplab_worker.adapters.onnxruntime.engine import TYPES, Engine, ModelError
from steplab_worker.adapters.onnxruntime.files import FileError, file_hashes, model_file
from steplab_worker.helper import Document, Say, serve


def examine(job: Document) -> Document:
    """Which files a network consists of, after a batch of zeros has gone through it."""
    network, folders, shape = job["network"], job["paths"], job["shape"]
    hashes = file_hashes(network, folders)
    engine = Engine(model_file(network, folders), 1, "all")
    batch = engine.input.shape[0] if engine.input.shape else None
    rows = batch if isinstance(batch, int) else 1  # the batch of a trial may be another: that trial says so
    engine.expect(rows, shape)
    engine.load(np.zeros((rows, *shape), TYPES[engine.input.type]))
    engine.run()
    engine.mean()
    return {"files": hashes, "graph": "", "shape": shape, "classes": job["classes"], "samples": 0}


def _answer(job: Document) -> Document:
    try:
        return examine(job)
    except FileError as error:
        return {"error": str(error)}
    except ModelError as error:
        return {"error": "%s cannot be run on %s: %s" % (job["network"], job["dataset"], error)}
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors have no common kind; an error is an answer
        return {"error": "%s cannot be run: %s: %s" % (job["network"], type(error).__name__, error)}


def describe_files(job: Document, say: Say) -> None:
    """Answer each question of a job."""
    for question in job["questions"]:
        say(_answer(question))


def main() -> None:
    """Examine a study's ONNX files."""
    serve(describe_files)

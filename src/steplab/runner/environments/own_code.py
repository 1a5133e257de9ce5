"""A study's own code and ONNX files, tried by a helper in their framework's environment before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steplab.core.errors import InputError
from steplab.core.own_code import CodeIdentity, CodeUse, OwnCode, is_own, sample_text
from steplab.kinds.base import TrialKind
from steplab.runner.environments import worker
from steplab.runner.environments.registry import find
from steplab_worker import data
from steplab_worker.data import Spec

SECONDS = 600


def examine(uses: Sequence[CodeUse], folder: Path, kind: type[TrialKind], where: str) -> OwnCode:
    """What the code of a study consists of; one sentence on it if it does not work. It runs, but not in this process.

    Every network builds and takes a small batch of its data set, as a trial of that kind would give it.
    """
    identities: dict[CodeUse, CodeIdentity] = {}
    for framework, environment in dict.fromkeys((use.framework, use.environment) for use in uses):
        these = [use for use in uses if (use.framework, use.environment) == (framework, environment)]
        python, helper = find(framework, environment).python, f"adapters.{framework}.own_code"
        questions = [_question(use, folder, kind) for use in these]
        for use, answer in zip(these, _answers(python, helper, questions, where), strict=True):
            identities[use] = _identity(use, answer)
    return OwnCode(folder, identities)


def _question(use: CodeUse, folder: Path, kind: type[TrialKind]) -> dict[str, Any]:
    spec = None if is_own(use.dataset) else data.spec(use.dataset)
    return {
        "network": use.network,
        "dataset": use.dataset,
        "step": use.step,
        "paths": [str(folder)],
        "shape": list(spec.shape) if spec else [],
        "classes": spec.classes if spec else 0,
        "tokens": bool(spec and spec.is_text),
        "learns": kind.learns,
        "validates": kind.validates,
    }


def _answers(python: Path, helper: str, questions: Sequence[dict[str, Any]], where: str) -> Iterator[dict[str, Any]]:
    job = {"questions": list(questions)}
    try:
        for answer in worker.answers(python, helper, job, SECONDS):
            if "error" in answer:
                raise InputError(" ".join(str(answer["error"]).split()), where=where)
            yield answer
    except worker.HelperLate:
        raise InputError(f"the study's own code took more than {SECONDS} s to be tried", where=where) from None
    except worker.HelperFailed as failed:
        raise InputError(f"the study's own code cannot be tried: {failed}", where=where) from None


def _identity(use: CodeUse, answer: dict[str, Any]) -> CodeIdentity:
    shape, samples = tuple(map(int, answer["shape"])), int(answer["samples"])
    spec = Spec(shape, int(answer["classes"]), samples, 0, samples, (0.0,), (1.0,))
    files = {str(name): str(digest) for name, digest in answer["files"].items()}
    return CodeIdentity(files, str(answer["graph"]), sample_text(spec) if is_own(use.dataset) else "")

"""Tries a study's own code before anything is measured, and says what it consists of: a helper of the laboratory.

Each question is answered in a process of its own, so that what one network imports is not taken for another's. The
files are those that were really imported from the study's folder, the graph what one small batch really ran.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import sys
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import steplab_worker
from steplab_worker import limits
from steplab_worker.adapters.torch.factory import (
    FactoryError,
    explained,
    is_own,
    load_factory,
    make_module,
    named_parts,
)
from steplab_worker.adapters.torch.named_samples import LABELS, call, is_named, labels_of, loss_in, scores_in
from steplab_worker.adapters.torch.own_data import batch_of, classes_of, make_dataset, sample_of, shape_of
from steplab_worker.adapters.torch.trace import example, record, trainable
from steplab_worker.helper import Document, Say, serve

BATCH = 2  # the least with which batch normalisation can train
FORK = multiprocessing.get_context("fork")


def examine(job: Document) -> Document:
    """What the code named by a job consists of, and what its data set looks like; a FactoryError if it does not work.

    The job: `network`, `dataset`, `step` (of which those that are one's own are examined), `paths`, the `shape` and the
    `classes` of the data set's samples if it is none of one's own and whether they are `tokens`, `learns`.
    """
    # A network that is drawn at random must be the same one in the next run.
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    sys.path.extend(path for path in job["paths"] if path not in sys.path)
    batch, about = _batch(job)
    job = dict(job, **about)
    graph = _graph(job, batch) if is_own(job["network"]) else ""
    if is_own(job["step"]) and not is_own(job["network"]):
        load_factory(job["step"])
    own = [job[name] for name in ("network", "dataset", "step") if is_own(job[name])]
    return dict(about, graph=graph, files=imported_files(job["paths"], own))


def _batch(job: Document) -> Tuple[Tuple[Any, Any], Document]:
    """A small batch, and what the samples look like; inputs are None where the network may choose their type."""
    if not is_own(job["dataset"]):
        return _usual_batch(job), {"shape": job["shape"], "classes": job["classes"], "samples": 0}
    spec = job["dataset"]
    dataset = make_dataset(spec)
    inputs, targets = batch_of(spec, dataset, BATCH)
    if job["validates"]:
        sample_of(spec, make_dataset(spec, "test"))
        if is_named(inputs):
            raise FactoryError("%s: kind train needs samples that are pairs, for its accuracy; these have names" % spec)
    about = {"shape": list(shape_of(inputs)[1:]), "classes": classes_of(spec, dataset), "samples": len(dataset)}
    return (inputs, targets), about


def _usual_batch(job: Document) -> Tuple[Any, torch.Tensor]:
    """A batch like those of a built-in data set; of tokens every one has a label."""
    shape, label = job["shape"], max(0, job["classes"] - 1)
    if job["tokens"]:
        return torch.zeros((BATCH, *shape), dtype=torch.int32), torch.full((BATCH, *shape), label)
    return None, torch.full((BATCH,), label)


def _graph(job: Document, batch: Tuple[Any, torch.Tensor]) -> str:
    """The hash of the network's graph, after it took a batch and gave outputs that can be learned from."""
    spec = job["network"]
    net = make_module(spec).train(job["learns"])
    inputs = example(net, (BATCH, *job["shape"])) if batch[0] is None else batch[0]
    try:
        operations, output = record(net, inputs)
    except Exception as error:  # the user's own code may raise anything
        what = "does not take the samples of %s (%s)" % (job["dataset"], _looks(inputs))
        raise FactoryError("%s %s: %s: %s" % (spec, what, type(error).__name__, error)) from error
    if is_own(job["step"]) and job["learns"]:
        _try_step(job["step"], net, inputs, labels_of(*batch))
    elif job["learns"] and is_named(inputs):
        _expect_loss(job, net, inputs)
    elif job["learns"]:
        _expect_learnable(job, _scores(spec, output, "name a training step of your own with `step`"), batch[1])
    else:
        _scores(spec, output, "an inference gives a tensor, or `logits`")
    return digest(json.dumps([operations, trainable(net)], sort_keys=True).encode())


def _looks(inputs: Any) -> str:
    """The shapes of a batch's samples in words."""
    parts = inputs.items() if is_named(inputs) else [("", inputs)]
    return ", ".join(" ".join(filter(None, (name, "x".join(map(str, part.shape[1:]))))) for name, part in parts)


def _expect_loss(job: Document, net: nn.Module, inputs: Any) -> None:
    """A network that takes its inputs by name gives the loss itself."""
    spec = job["network"]
    with torch.no_grad():
        loss = loss_in(explained(spec, lambda: call(net, inputs)))
    if loss is None or loss.numel() != 1:
        what = "gives no `loss` for the samples of %s (%s)" % (job["dataset"], ", ".join(inputs))
        hint = "" if LABELS in inputs else "they need `labels`, or "
        raise FactoryError("%s %s: %sname a training step of your own with `step`" % (spec, what, hint))


def _scores(spec: str, output: Any, hint: str) -> torch.Tensor:
    scores = scores_in(output)
    if not torch.is_tensor(scores):
        raise FactoryError("%s gives a %s, not a tensor; %s" % (spec, type(output).__name__, hint))
    return scores


def _expect_learnable(job: Document, output: torch.Tensor, labels: torch.Tensor) -> None:
    """The loss of ordinary steps is cross-entropy: a score for each class."""
    spec, classes = job["network"], job["classes"]
    scores = output.flatten(0, labels.dim() - 1)  # of a text one for each token
    if classes and scores.dim() >= 2 and scores.shape[1] < classes:
        much = (spec, scores.shape[1], "token" if job["tokens"] else "sample", job["dataset"], classes)
        raise FactoryError("%s gives %d outputs for a %s, but %s has %d classes" % much)
    explained(
        "%s and the cross-entropy of %s" % (spec, job["dataset"]),
        lambda: nn.functional.cross_entropy(scores, labels.flatten()),
    )


def _try_step(spec: str, net: nn.Module, samples: Any, labels: Any) -> None:
    step = load_factory(spec)
    loss = explained(spec, lambda: step(net, torch.optim.SGD(net.parameters(), lr=0.01), samples, labels))
    if not (torch.is_tensor(loss) and loss.numel() == 1):
        raise FactoryError("%s returned a %s, not the loss as a tensor of one number" % (spec, type(loss).__name__))


def imported_files(folders: Sequence[str], specs: Sequence[str]) -> Dict[str, str]:
    """The hashes of all files imported from the folders, by their path there, and of the modules named."""
    ours = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.abspath(steplab_worker.__file__))]
    files: Dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if not (os.path.isabs(file) and os.path.isfile(file)):
            continue  # made by a program: PyTorch has such modules, with names of files that are nowhere
        inside = [folder for folder in folders if _is_in(file, folder)]
        if inside and not any(_is_in(file, place) and not _is_in(inside[0], place) for place in ours):
            files[os.path.relpath(file, inside[0])] = _digest_of(file)
        elif name in {named_parts(spec)[0] for spec in specs}:
            files["installed:" + name] = _digest_of(file)
    return files


def _is_in(file: str, folder: str) -> bool:
    return file.startswith(os.path.join(os.path.abspath(folder), ""))


def _digest_of(file: str) -> str:
    with open(file, "rb") as content:
        return digest(content.read())


def digest(content: bytes) -> str:
    """SHA-256."""
    return hashlib.sha256(content).hexdigest()


def _apart(job: Document, grouped: bool) -> Document:
    """The answer to one question, from a process of its own."""
    receiving, sending = FORK.Pipe(False)
    process = FORK.Process(target=_answer, args=(job, grouped, sending), daemon=True)
    process.start()
    sending.close()
    try:
        answer: Document = receiving.recv()
    except EOFError:
        process.join()
        answer = {"error": "the code ended its process (exit code %s)" % process.exitcode}
    process.join()
    return answer


def _answer(job: Document, grouped: bool, sending: Any) -> None:
    limits.die_with_parent()
    try:
        if grouped:
            os.environ["GLOO_SOCKET_IFNAME"] = "lo"
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        sending.send(examine(job))
    except FactoryError as error:
        sending.send({"error": str(error)})
    except Exception as error:  # noqa: BLE001 - the process ends here: an error is an answer
        sending.send({"error": "the study's own code cannot be tried: %s: %s" % (type(error).__name__, error)})


def _examined(job: Document) -> Document:
    """The answer to one question; code that wants to know its rank is asked again in a group of one."""
    alone = _apart(job, grouped=False)
    if "error" not in alone:
        return alone
    together = _apart(job, grouped=True)
    return alone if "error" in together else together


def describe_code(job: Document, say: Say) -> None:
    """Answer each question of a job."""
    torch.set_num_threads(1)  # before any process is forked off
    record(nn.Linear(1, 1), torch.zeros(1, 1))  # what PyTorch imports for that it need not import in each process
    questions: List[Document] = job["questions"]
    for question in questions:
        say(_examined(question))


def main() -> None:
    """Examine a study's own code."""
    serve(describe_code)

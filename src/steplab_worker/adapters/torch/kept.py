"""What a step of a user's own network holds in memory, seen in PyTorch: a helper of the laboratory.

One forward and one backward pass run for each batch size. What autograd keeps is seen by its own hooks, module by
module; the most that is allocated at once by PyTorch's profiler, which hears of every block that comes or goes.
"""

from __future__ import annotations

import traceback
from typing import Any, Dict, Iterable, Iterator, List, Set, Tuple

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from steplab_worker.adapters.torch.factory import FactoryError, explained, make_module
from steplab_worker.adapters.torch.named_samples import call, is_named, loss_in, scores_in
from steplab_worker.adapters.torch.trace import inputs_of
from steplab_worker.helper import Document, Say, serve

OUTSIDE = "loss"  # what is kept by no module of the network


class Keeper:
    """Notes each array that autograd keeps, once, with the module that runs meanwhile; parameters do not count."""

    def __init__(self, net: nn.Module):
        self.kept: Dict[str, int] = {}
        self.seen = {_storage(tensor).data_ptr() for tensor in [*net.parameters(), *net.buffers()]}
        self.alive: List[torch.Tensor] = []  # so that no address is used twice
        self.path: List[str] = []
        self.handles: List[Any] = []
        for name, child in net.named_modules():
            self.handles.append(child.register_forward_pre_hook(lambda *_, key=name: self.path.append(key)))
            self.handles.append(child.register_forward_hook(lambda *_: self._leave(), always_call=True))

    def _leave(self) -> None:
        self.path.pop()

    def note(self, tensor: torch.Tensor) -> torch.Tensor:
        """An array that is about to be kept."""
        storage, layer = _storage(tensor), (self.path[-1] or "network") if self.path else OUTSIDE
        if storage.data_ptr() not in self.seen:
            self.seen.add(storage.data_ptr())
            self.alive.append(tensor)
            self.kept[layer] = self.kept.get(layer, 0) + storage.nbytes()
        return tensor

    def close(self) -> None:
        """Take the hooks away, and let go."""
        for handle in self.handles:
            handle.remove()
        self.alive.clear()


def _storage(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage()


def kept_by(net: nn.Module, inputs: Any) -> Dict[str, int]:
    """Bytes that autograd keeps from forward to backward, by module."""
    keeper = Keeper(net)
    try:
        with torch.autograd.graph.saved_tensors_hooks(keeper.note, lambda tensor: tensor):
            _loss(net, inputs)
    finally:
        keeper.close()
    return keeper.kept


def working_bytes(net: nn.Module, inputs: Any) -> int:
    """The most bytes that forward and backward add at once: activations, gradients, scratch."""
    net.zero_grad(set_to_none=True)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        _loss(net, inputs).backward()
    net.zero_grad(set_to_none=True)
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def _loss(net: nn.Module, inputs: Any) -> torch.Tensor:
    """The network's own loss, or the cross-entropy of its scores; only what it keeps matters here."""
    output = call(net, inputs)
    own, scores = loss_in(output), scores_in(output)
    if own is not None:
        return own
    if not torch.is_tensor(scores):
        raise FactoryError("it gives a %s, not a tensor, and no loss" % type(output).__name__)
    if scores.dim() < 2:
        raise FactoryError("it gives a number for a sample, not a score for each class, and no loss")
    flat = scores.flatten(0, -2)
    return nn.functional.cross_entropy(flat, torch.zeros(len(flat), dtype=torch.int64))


def _seen(net: nn.Module, job: Document, batch: int) -> Document:
    inputs = inputs_of(net, dict(job, batch=batch))
    kept = kept_by(net, inputs)
    rows = [[name, type(part).__name__, bytes_, kept.get(name, 0)] for name, part, bytes_ in _own_arrays(net)]
    layers = [row for row in rows if row[2] or row[3]] + [[OUTSIDE, "", 0, kept.get(OUTSIDE, 0)]]
    given = _bytes(inputs.values() if is_named(inputs) else [inputs])
    learned = _bytes(p for p in net.parameters() if p.requires_grad)
    working = given + working_bytes(net, inputs)
    return {"batch": batch, "layers": layers, "learned_bytes": learned, "working_bytes": working}


def _own_arrays(net: nn.Module) -> Iterator[Tuple[str, nn.Module, int]]:
    """Each module with the bytes of those parameters, learned or frozen, and buffers that no module before it has.

    The network itself is one, too.
    """
    known: Set[int] = set()
    for name, module in net.named_modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        new = [tensor for tensor in own if id(tensor) not in known]
        known.update(map(id, new))
        yield name or "network", module, _bytes(new)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def describe_memory(job: Document, say: Say) -> None:
    """What a step holds at each batch size of the job; what is wrong with the user's code is an answer, too."""
    torch.manual_seed(0)
    try:
        net = make_module(job["network"], job["paths"]).train()
        for batch in job["batches"]:
            say(explained(job["network"], lambda batch=batch: _seen(net, job, batch)))
    except FactoryError as error:
        say({"error": str(error), "details": traceback.format_exc()})


def main() -> None:
    """Look at the memory of a user's network."""
    serve(describe_memory)

"""Describes a user's PyTorch network layer by layer: a helper of the laboratory.

One batch runs forward; every operation that reaches PyTorch's dispatcher is written down with its shapes and the module
it belongs to, so nothing between the modules is missed.
"""

from __future__ import annotations

import traceback
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from steplab_worker.adapters.torch.factory import FactoryError, explained, make_module
from steplab_worker.adapters.torch.named_samples import call, is_named, unlabelled
from steplab_worker.adapters.torch.operators import IGNORED, VIEWS, describe
from steplab_worker.adapters.torch.own_data import batch_of, make_dataset, shape_of
from steplab_worker.helper import Document, Say, serve

INPUT = "input"


class Recorder(TorchDispatchMode):
    """Writes down every operation; tensors are known by identity and kept, so that no identity is used twice."""

    def __init__(self, net: nn.Module, batch: Any):
        super().__init__()
        inputs = list(batch.values()) if is_named(batch) else [batch]
        self.operations: List[Dict[str, Any]] = []
        self.parameters = {id(p): name for name, p in net.named_parameters() if p.requires_grad}
        self.sources = {id(tensor): INPUT for tensor in inputs}
        self.alive: List[Any] = [*inputs]
        self.path: List[str] = []
        self.names: Dict[str, int] = {}
        self.leaves = {name for name, child in net.named_modules() if not list(child.children())}
        for name, child in net.named_modules():
            child.register_forward_pre_hook(self._enter(name))
            child.register_forward_hook(self._leave, always_call=True)

    def _enter(self, name: str) -> Any:
        return lambda module, inputs: self.path.append(name)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self.path.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        operator = func.overloadpacket.__name__
        tensors = [tensor for tensor in tree_flatten((args, kwargs))[0] if isinstance(tensor, torch.Tensor)]
        outputs = [tensor for tensor in tree_flatten(result)[0] if isinstance(tensor, torch.Tensor)]
        self.alive += [*tensors, *outputs]
        if operator in VIEWS and tensors:
            self._follow(tensors[0], outputs)
        elif operator not in IGNORED and outputs:
            self._note(operator, args, tensors, outputs)
        return result

    def _follow(self, tensor: torch.Tensor, views: List[torch.Tensor]) -> None:
        """A view is the same tensor to us."""
        for known in (self.parameters, self.sources):
            if id(tensor) in known:
                known.update({id(view): known[id(tensor)] for view in views})

    def _note(
        self, operator: str, args: Sequence[Any], tensors: List[torch.Tensor], outputs: List[torch.Tensor]
    ) -> None:
        learned = [tensor for tensor in tensors if id(tensor) in self.parameters]
        data = [tensor for tensor in tensors if id(tensor) in self.sources and id(tensor) not in self.parameters]
        if not learned and not data:
            return  # a counter or a mask: neither the input nor anything learned is in it
        kind, options, roles = describe(operator, args, learned, data)
        data = options.pop("data", data)
        name = self._name(operator if kind.startswith("aten.") else kind)
        self.operations.append(
            {
                "name": name,
                "kind": kind,
                "inputs": [self.sources[id(tensor)] for tensor in data],
                "input_shapes": options.pop("input_shapes", [list(tensor.shape) for tensor in data]),
                "output_shape": options.pop("output_shape", list(outputs[0].shape)),
                "options": options,
                "weights": [
                    {"role": role, "name": self.parameters[id(weight)], "shape": list(shape)}
                    for role, weight, shape in roles
                ],
            }
        )
        self.sources.update({id(tensor): name for tensor in outputs})

    def _name(self, operation: str) -> str:
        """The module's path; with the operation where the module does more than one thing."""
        path = self.path[-1] if self.path else ""
        base = (
            path
            if path and path in self.leaves and path not in self.names
            else ".".join(filter(None, (path, operation)))
        )
        self.names[base] = self.names.get(base, 0) + 1
        return base if self.names[base] == 1 else "%s_%d" % (base, self.names[base])


def record(net: nn.Module, batch: Any) -> Tuple[List[Dict[str, Any]], Any]:
    """The operations of one forward pass, and what it gave; labels stay out of it, and so does a loss."""
    batch = unlabelled(batch)
    recorder = Recorder(net, batch)
    with torch.no_grad(), recorder:
        output = call(net, batch)
    return recorder.operations, output


def trainable(net: nn.Module) -> List[Any]:
    """Names and shapes of all trainable parameters."""
    return [[name, list(p.shape)] for name, p in net.named_parameters() if p.requires_grad]


def trace(job: Document) -> Dict[str, Any]:
    """The operations of one forward pass, and all trainable parameters."""
    torch.manual_seed(0)
    spec = job["network"]
    net = make_module(spec, job["paths"]).train()
    inputs = inputs_of(net, job)
    operations, _ = explained(spec, lambda: record(net, inputs))
    return {"operations": operations, "parameters": trainable(net), "input_shape": list(shape_of(inputs)[1:])}


def inputs_of(net: nn.Module, job: Document) -> Any:
    """A batch of the job's own data set, or of the shape that it or the network names."""
    if job["dataset"]:
        return batch_of(job["dataset"], make_dataset(job["dataset"], paths=job["paths"]), job["batch"])[0]
    wanted = tuple(job["shape"] or getattr(net, "input_shape", ()))
    if not wanted:
        hint = "give it with --input, or the data set with --dataset"
        raise FactoryError("%s: the shape of a sample is not known; %s" % (job["network"], hint))
    return example(net, (job["batch"], *wanted), torch.int32 if job["tokens"] else None)


def example(net: nn.Module, shape: Sequence[int], dtype: Optional[torch.dtype] = None) -> torch.Tensor:
    """Inputs of that shape, of the module's own type if it has one: zeros where these are whole numbers."""
    dtype = dtype or getattr(net, "input_dtype", _usual_dtype(net))
    return torch.rand(tuple(shape), dtype=dtype) if dtype.is_floating_point else torch.zeros(tuple(shape), dtype=dtype)


def _usual_dtype(net: nn.Module) -> torch.dtype:
    """Hugging Face's models of texts say that their main input are the numbers of tokens."""
    return torch.int64 if getattr(net, "main_input_name", "") == "input_ids" else torch.float32


def describe_network(job: Document, say: Say) -> None:
    """Trace the network that the job names; what is wrong with the user's code is an answer, too."""
    try:
        say(trace(job))
    except FactoryError as error:
        say({"error": str(error), "details": traceback.format_exc()})


def main() -> None:
    """Describe a user's network."""
    serve(describe_network)

"""All that further training in PyTorch depends on, as arrays by name, and back."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import torch
from torch import nn

# What the optimisers remember of each weight.
MEMORIES = {"sgd": (), "momentum": ("momentum_buffer",), "adam": ("step", "exp_avg", "exp_avg_sq")}
MODULE, OPTIMIZER, SCALER = "module", "optimizer", "scaler"


def saved(module: nn.Module, optimizer: torch.optim.Optimizer, kind: str, scaler: Any) -> Dict[str, np.ndarray]:
    """The module's tensors, the optimiser's (zeros for what it has not made yet), and the scale of losses, if any."""
    tensors = {"%s/%s" % (MODULE, name): tensor for name, tensor in module.state_dict().items()}
    for number, parameter in enumerate(module.parameters()):
        held = optimizer.state.get(parameter, {})
        for name in MEMORIES[kind]:
            empty = torch.zeros(()) if name == "step" else torch.zeros_like(parameter)
            tensors["%s/%d/%s" % (OPTIMIZER, number, name)] = held.get(name, empty)
    arrays = {name: tensor for name, tensor in tensors.items() if torch.is_tensor(tensor)}
    state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in arrays.items()}
    scale = {} if scaler is None else scaler.state_dict()
    return dict(state, **{"%s/%s" % (SCALER, name): np.array(value) for name, value in scale.items()})


def restore(state: Dict[str, np.ndarray], module: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any) -> None:
    """Go on from what was saved."""
    tensors: Dict[str, torch.Tensor] = {}
    held: Dict[int, Dict[str, torch.Tensor]] = {}
    scale: Dict[str, Any] = {}
    for name, array in state.items():
        owner, _, rest = name.partition("/")
        if owner == MODULE:
            tensors[rest] = torch.from_numpy(array.copy())
        elif owner == OPTIMIZER:
            number, _, rest = rest.partition("/")
            held.setdefault(int(number), {})[rest] = torch.from_numpy(array.copy())
        else:
            scale[rest] = array.item()
    module.load_state_dict(tensors)
    optimizer.load_state_dict(dict(optimizer.state_dict(), state=held))
    if scaler is not None:
        scaler.load_state_dict(scale)

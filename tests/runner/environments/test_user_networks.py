"""A user's PyTorch network is described completely, and counted as PyTorch's counter counts it."""

import json
import subprocess

import pytest

from steplab.costs.network import cost
from steplab.runner.environments import user_networks

# A network that does most things: branches, in-place, groups, fused attention, functions between modules, a shared and
# an unused layer, and one operator that has no place in the table.
SOURCE = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.shared = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.drop, self.head = nn.LayerNorm(8), nn.Dropout(0.1), nn.Linear(8, 10)
        self.gamma, self.unused = nn.Parameter(torch.ones(8)), nn.Linear(3, 3)
    def forward(self, x):
        x = self.stem(x)
        x = x + self.shared(self.shared(x))
        x = torch.nn.functional.max_pool2d(x, 2).flatten(2).transpose(1, 2)
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0]) * self.gamma
        return self.head(self.drop(torch.cumsum(x, 1).mean(1)))
def net():
    return Net()
"""
COUNT = """
import json, sys, torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
sys.path.insert(0, sys.argv[1])
from own_network import net
made = net()
with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
    y = made(torch.rand(2, 3, 16, 16))
    forward = counter.get_total_flops()
    y.sum().backward()
total = counter.get_total_flops()
print(json.dumps([forward, total, sum(p.numel() for p in made.parameters())]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the user's network stands."""
    made = tmp_path_factory.mktemp("own")
    (made / "own_network.py").write_text(SOURCE)
    return made


@pytest.fixture(scope="module")
def made(folder, torch_python):
    """Its costs, as traced by the worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(user_networks, "torch_python", lambda: torch_python)
        return cost(user_networks.trace_module("module:own_network:net", 2, (3, 16, 16)))


def test_flops_and_parameters_are_those_of_pytorch(made, folder, torch_python):
    command = [torch_python, "-c", COUNT, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    forward, both, parameters = json.loads(done.stdout)
    # The counter takes the weight's gradient of the two grouped convolutions as if they had no groups.
    too_much = 2 * (2 - 1) * (2 * 2 * 8 * 16 * 16 * 4 * 9)
    assert made.totals.forward_matmul_flops == forward
    assert made.totals.forward_matmul_flops + made.totals.backward_matmul_flops == both - too_much
    assert made.parameters == parameters


def test_what_has_no_place_in_the_table_is_reported(made):
    assert [(layer.kind, layer.totals) for layer in made.unknown] == [("aten.cumsum", None)]


def test_layers_are_called_by_their_place_in_the_module(made):
    names = [layer.name for layer in made.layers]
    assert {"stem.0", "stem.1", "stem.2", "shared", "norm", "head", "add"} <= set(names)
    assert len(set(names)) == len(names)

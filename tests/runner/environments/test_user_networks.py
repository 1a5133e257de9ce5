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
class Encoder(nn.Module):
    # What transformers are made from: masked, causal and cross attention, weights asked for, gates and norms.
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.gate, self.head = nn.RMSNorm(8), nn.Linear(8, 16), nn.Linear(8, 10)
    def forward(self, x):
        x = x.flatten(2).transpose(1, 2)[:, :20, :].repeat(1, 1, 3)[..., :8]
        mask = nn.Transformer.generate_square_subsequent_mask(20)
        x = self.layer(x, src_mask=mask)
        x, _ = self.attention(x, x, x, attn_mask=mask, need_weights=True)
        query = x.view(2, 20, 2, 4).transpose(1, 2)
        x = nn.functional.scaled_dot_product_attention(query, query[:, :, :7], query[:, :, :7])
        x = nn.functional.glu(self.gate(self.norm(x.transpose(1, 2).flatten(2))), -1)
        return self.head((x / x.std(-1, keepdim=True)).mean(1))
def encoder():
    return Encoder()
"""
COUNT = """
import json, sys, torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
sys.path.insert(0, sys.argv[1])
import own_network
made = getattr(own_network, sys.argv[2])()
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


def traced(folder, torch_python, name):
    """The costs of a network, as traced by the worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(user_networks, "torch_python", lambda environment: torch_python)
        return cost(user_networks.trace_module(f"module:own_network:{name}", 2, (3, 16, 16)))


def counted(folder, torch_python, name):
    """By PyTorch's counter: FLOPs of the forward pass and of both, and the parameters."""
    command = [torch_python, "-c", COUNT, folder, name]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="module")
def made(folder, torch_python):
    """Its costs."""
    return traced(folder, torch_python, "net")


def test_a_transformer_is_counted_whole_and_as_pytorch_counts_it(folder, torch_python):
    made, (forward, both, parameters) = (how(folder, torch_python, "encoder") for how in (traced, counted))
    assert [layer.kind for layer in made.unknown] == []
    kinds = [layer.kind for layer in made.layers]
    assert {"softmax", "attention", "matmul", "activation", "reduce"} <= set(kinds)
    assert made.totals.forward_matmul_flops == forward
    assert made.totals.forward_matmul_flops + made.totals.backward_matmul_flops == both
    assert made.parameters == parameters


def test_flops_and_parameters_are_those_of_pytorch(made, folder, torch_python):
    forward, both, parameters = counted(folder, torch_python, "net")
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

"""docs/costs.md says what the code counts."""

import re
from pathlib import Path

import pytest

from steplab.costs.builtin import builtin
from steplab.costs.counting import COUNTING
from steplab.costs.network import cost
from steplab_worker import networks

PAGE = (Path(__file__).parents[2] / "docs" / "costs.md").read_text()


@pytest.mark.parametrize("kind", COUNTING)
def test_every_kind_has_its_formula(kind):
    assert re.search(rf"^\| .*`{kind}`", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", networks.names())
def test_the_printed_counts_are_the_computed_ones(name):
    made = cost(builtin(name))
    totals = made.totals
    numbers = (made.parameters, totals.forward_matmul_flops, totals.forward_flops, totals.backward_flops)
    shape = "x".join(map(str, made.input_shape))
    assert f"| `{name}` | {shape} | " + " | ".join(f"{number:,}" for number in numbers) + " |" in PAGE


def test_the_sums_on_the_napkin():
    layers = {layer.name: layer for layer in cost(builtin("alexnet")).layers}
    dense = sum(layers[name].totals.forward_matmul_flops for name in ("dense6", "dense7", "dense8"))
    assert round(dense / 1e6) == 117
    assert round(dense / 3_566_912) == 33
    first = cost(builtin("resnet18")).layers[0].totals.forward_matmul_flops
    assert (first, round(first / 36_347_700, 1)) == (2 * 802_816 * 147, 6.5)
    outside = [cost(builtin(name)).totals for name in ("alexnet", "resnet18")]
    assert [round((one.forward_flops - one.forward_matmul_flops) / 1e6, 1) for one in outside] == [1.7, 24.6]

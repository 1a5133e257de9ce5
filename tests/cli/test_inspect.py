"""`steplab inspect` as a user meets it."""

import json

import pytest
from typer.testing import CliRunner

from steplab.cli.inspect import app
from steplab.core.errors import InputError

FACTORY = """
from torch import nn
print("this must not spoil the answer")
def net():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 5))
def number():
    return 5
def broken():
    raise RuntimeError("no luck")
"""


def inspect(*words):
    result = CliRunner().invoke(app, list(words))
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def own(tmp_path, monkeypatch, torch_python):
    """A folder with the user's own network in it."""
    (tmp_path / "my_networks.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("steplab.runner.environments.user_networks.torch_python", lambda environment: torch_python)


@pytest.mark.parametrize("network", ["lenet5", "efficientnet_b0", "resattnet3d18", "alexnet"])
def test_the_table_fits_eighty_columns_and_says_the_convention(network, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = inspect(network, "--batch", "64").splitlines()
    assert max(map(len, lines)) <= 80
    assert "1 multiply-add = 2" in lines[0]


def test_json_is_one_document():
    made = json.loads(inspect("resnet50", "--json"))
    assert made["parameters"] == 25557032
    assert made["complete"] is True


def test_input_classes_and_options_change_the_network():
    made = json.loads(inspect("lenet5", "--input", "3x32x32", "--classes", "7", "--set", "filters=12", "--json"))
    assert made["layers"][0]["output_shape"] == [12, 32, 32]
    assert made["layers"][-1]["output_shape"] == [7]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lenet5", "--input", "3x0x4"], "'3x0x4' is not a shape"),
        (["lenet5", "--input", "3 by 4"], "is not a shape"),
        (["lenet5", "--set", "filters"], "'filters' is not NAME=VALUE"),
        (["onnx:none.onnx"], "there is no such file"),
        (["onnx:none.onnx", "--classes", "3"], "are for built-in networks"),
        (["resnet"], "there is no network 'resnet'"),
    ],
)
def test_wrong_words_are_one_sentence(words, message):
    with pytest.raises(InputError, match=message):
        inspect(*words)


def test_the_users_own_network(own):
    made = json.loads(inspect("module:my_networks:net", "--input", "3x16x16", "--batch", "2", "--json"))
    assert made["parameters"] == 8 * 27 + 8 + 5 * 1568 + 5
    assert [layer["name"] for layer in made["layers"]] == ["0", "1", "3"]
    assert made["forward_matmul_flops"] == 2 * 2 * (8 * 14 * 14 * 27 + 5 * 1568)
    assert made["complete"] is True


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("module:my_networks:broken", "RuntimeError: no luck"),
        ("module:my_networks:number", "returned a int, not an nn.Module"),
        ("module:my_networks", "write module:PACKAGE.MODULE:FUNCTION"),
    ],
)
def test_what_is_wrong_with_the_users_own_network(own, network, message):
    with pytest.raises(InputError, match=message) as caught:
        inspect(network, "--input", "3x16x16")
    assert "\n" not in str(caught.value)


def test_what_is_held_begins_with_how_it_is_trained():
    words = ("--memory", "--batch", "2", "--optimizer", "adam", "--set", "layers=2", "--set", "width=64")
    plain = inspect("gpt2", *words, "--set", "heads=4").splitlines()[0]
    assert plain == "gpt2, batch 2, training with adam, float32"
    told = inspect("gpt2", *words, "--set", "heads=4", "--recompute", "--strategy", "sharded", "--workers", "4")
    assert told.splitlines()[0] == f"{plain}, blocks recomputed, one of 4 workers that divide the parameters"

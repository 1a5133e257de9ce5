"""ONNX files are costed like built-in networks, never executed, and never crash anything."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, load, save

from steplab.core.errors import InputError
from steplab.costs.builtin import builtin
from steplab.costs.network import cost
from steplab.costs.onnx_graph import read_onnx
from steplab_worker import networks


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [("lenet5", {}, (1, 28, 28)), ("resnet18", {"filters": 4}, (3, 64, 64)), ("cnn9", {}, (3, 32, 32))],
)
def test_an_exported_network_costs_what_the_network_costs(export, name, options, shape):
    path = export(networks.build(name, options, shape))
    ours = cost(builtin(name, 4, shape, None, {key: str(value) for key, value in options.items()}))
    theirs = cost(read_onnx(str(path), 4))
    assert theirs.parameters == ours.parameters
    assert theirs.totals == ours.totals
    assert theirs.unknown == ()
    assert theirs.input_shape == shape


def test_an_open_input_takes_its_shape_from_the_user(export, write_onnx):
    node = helper.make_node("Conv", ["x", "w"], ["y"], "first")
    weights = {"w": np.zeros((8, 3, 3, 3), np.float32)}
    path = str(write_onnx([node], ["n", 3, "h", "w"], weights))
    assert read_onnx(path, 2, (3, 10, 12)).operations[0].output_shape == (2, 8, 8, 10)
    with pytest.raises(InputError, match=r"leaves the shape of its input 'x' open; give it with --input"):
        read_onnx(path, 2)


def test_an_operator_outside_the_table_is_unknown_not_free(write_onnx):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "known"),
        helper.make_node("LRN", ["a"], ["y"], "strange", size=3),
    ]
    made = cost(read_onnx(str(write_onnx(nodes, [1, 3, 8, 8], {}))))
    assert [(layer.name, layer.kind, layer.totals) for layer in made.unknown] == [("strange", "LRN", None)]
    assert made.totals.forward_flops == 3 * 8 * 8


def test_matrix_products_with_and_without_weights(write_onnx):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "project"),
        helper.make_node("Transpose", ["a"], ["t"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a", "t"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["y"], "shares", axis=-1),
    ]
    path = str(write_onnx(nodes, ["n", 5, 6], {"w": np.zeros((6, 7), np.float32)}))
    made = {layer.name: layer for layer in cost(read_onnx(path, 3)).layers}
    assert made["project"].totals.forward_matmul_flops == 2 * 3 * 5 * 6 * 7
    assert made["project"].totals.backward_matmul_flops == 2 * 3 * 5 * 6 * 7  # x is the input: no gradient
    assert made["scores"].totals.forward_matmul_flops == 2 * 3 * 5 * 5 * 7
    assert made["scores"].totals.backward_matmul_flops == 2 * 2 * 3 * 5 * 5 * 7
    assert made["project"].parameters == 42


def test_a_weight_used_twice_is_counted_once(write_onnx):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "one"),
        helper.make_node("MatMul", ["a", "w"], ["y"], "two"),
    ]
    made = cost(read_onnx(str(write_onnx(nodes, ["n", 6], {"w": np.zeros((6, 6), np.float32)}))))
    assert made.parameters == 36
    assert [layer.parameters for layer in made.layers] == [36, 0]


def test_arithmetic_on_shapes_is_no_floating_point_work(write_onnx):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], "shape"),
        helper.make_node("Gather", ["s", "zero"], ["n"], "take"),
        helper.make_node("Concat", ["n", "rest"], ["to"], "join", axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"], "reshape"),
    ]
    weights = {"zero": np.array([0], np.int64), "rest": np.array([-1], np.int64)}
    made = cost(read_onnx(str(write_onnx(nodes, ["n", 4, 5], weights)), 2))
    assert [layer.name for layer in made.layers] == ["reshape"]
    assert made.parameters == 0
    assert made.layers[-1].output_shape == (20,)
    assert made.totals.forward_flops == 0


def test_shapes_that_are_computed_step_by_step_are_followed(write_onnx):
    """As exporters write x.reshape(x.shape[0], x.shape[1] // 2, -1)."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], "shape"),
        helper.make_node("Slice", ["s", "one", "two"], ["c"], "channels"),
        helper.make_node("Div", ["c", "two"], ["h"], "half"),
        helper.make_node("Mod", ["h", "three"], ["m"], "odd"),
        helper.make_node("Add", ["h", "m"], ["k"], "sum"),
        helper.make_node("Slice", ["s", "zero", "one"], ["n"], "batch"),
        helper.make_node("Concat", ["n", "k", "rest"], ["to"], "join", axis=0),
        helper.make_node("Reshape", ["x", "to"], ["r"], "reshape"),
        helper.make_node("Relu", ["r"], ["y"], "last"),
    ]
    named = {"zero": 0, "one": 1, "two": 2, "three": 3, "rest": -1}
    weights = {name: np.array([value], np.int64) for name, value in named.items()}
    made = cost(read_onnx(str(write_onnx(nodes, ["n", 6, 8], weights)), 5))
    assert made.layers[-1].output_shape == (3, 16)
    assert made.layers[-1].totals.forward_flops == 5 * 6 * 8


def test_a_copy_of_a_weight_is_the_same_weight(write_onnx):
    nodes = [
        helper.make_node("Identity", ["w"], ["v"], "copy"),
        helper.make_node("MatMul", ["x", "w"], ["a"], "one"),
        helper.make_node("MatMul", ["a", "v"], ["y"], "two"),
    ]
    made = cost(read_onnx(str(write_onnx(nodes, ["n", 6], {"w": np.zeros((6, 6), np.float32)}))))
    assert made.parameters == 36
    assert [(layer.name, layer.parameters) for layer in made.layers] == [("one", 36), ("two", 0)]


def test_external_weights_are_never_opened(export, tmp_path):
    path = export(networks.build("lenet5"))
    model = load(path)
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "../../etc/passwd"
    outside = tmp_path / "outside.onnx"
    outside.write_bytes(model.SerializeToString())
    assert cost(read_onnx(str(outside))).parameters == 61706


def test_nothing_is_imported_from_the_folder_of_a_model(export, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("onnx", "numpy", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(7)")
    assert cost(read_onnx(str(export(networks.build("lenet5"))))).parameters == 61706


def test_a_fixed_batch_is_said(write_onnx):
    path = str(write_onnx([helper.make_node("Relu", ["x"], ["y"])], [4, 3], {}))
    assert read_onnx(path, 4).batch == 4
    with pytest.raises(InputError, match=r"fixes its batch at 4"):
        read_onnx(path, 1)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x00" * 64, b"\xff" * 4096])
def test_what_is_no_model_is_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match="ONNX model") as caught:
        read_onnx(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path, what in ((tmp_path, "Is a directory"), (tmp_path / "none.onnx", "there is no such file")):
        with pytest.raises(InputError, match=what):
            read_onnx(str(path))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [((8, 3, 3, 3), "first takes 3 channels and gets 4"), ((8, 4, 9, 9), "the window of first does not fit its input")],
)
def test_layers_that_do_not_fit_are_named(write_onnx, kernel, message):
    node = helper.make_node("Conv", ["x", "w"], ["y"], "first")
    path = str(write_onnx([node], [1, 4, 8, 8], {"w": np.zeros(kernel, np.float32)}))
    with pytest.raises(InputError, match=f"has a layer that does not fit: {message}"):
        read_onnx(path)


def test_what_shape_inference_finds_wrong_is_said(write_onnx):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "first")
    path = str(write_onnx([node], [1, 4], {"w": np.zeros((5, 3), np.float32)}))
    with pytest.raises(InputError, match="has layers that do not fit"):
        read_onnx(path)


def test_damaged_files_are_refused_or_read_but_never_crash(export, tmp_path):
    whole = export(networks.build("lenet5", {"filters": 1})).read_bytes()
    path, outcomes = tmp_path / "damaged.onnx", set()
    for content in (whole[:300], whole[:-300], whole[:100] + b"\xff" * 20 + whole[120:], whole[:-40] + b"\x07" * 40):
        path.write_bytes(content)
        try:
            outcomes.add(cost(read_onnx(str(path))).parameters > 0)
        except InputError as error:
            assert "\n" not in str(error)
            outcomes.add("refused")
    assert "refused" in outcomes


def test_of_many_damaged_files_each_is_read_or_refused(export):
    path = export(networks.build("lenet5", {"filters": 1}))
    script = Path(__file__).parent / "fuzz_onnx.py"
    done = subprocess.run([sys.executable, script, path, "250"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = json.loads(done.stdout)
    assert counts["read"] + counts["refused"] == 250
    assert min(counts.values()) > 10


def test_hostile_attributes_do_not_end_the_process(export, tmp_path):
    model = load(export(networks.build("lenet5")))
    for name, value in (("strides", 0), ("kernel_shape", 2**62), ("pads", -(2**40)), ("group", 0)):
        changed = type(model)()
        changed.CopyFrom(model)
        attribute = next(one for one in changed.graph.node[0].attribute if one.name == name)
        if attribute.ints:
            attribute.ints[:] = [value] * len(attribute.ints)
        attribute.i = value
        path = tmp_path / "hostile.onnx"
        save(changed, path)
        try:
            cost(read_onnx(str(path)))
        except InputError as error:
            assert "\n" not in str(error)

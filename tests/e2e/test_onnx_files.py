"""A user's own ONNX file in real ONNX Runtime: tried first, known by its content, measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from inferring import environment
from onnx import TensorProto, helper, numpy_helper

from steplab.runner.environments import worker
from steplab.store import records
from steplab.store.paths import StudyFolder

PATIENCE_S = 900  # for a machine that others use
STUDY = """
[study]
name = "mine"
kind = "infer"
[factors]
framework = ["onnxruntime", "torch"]
network = ["onnx:nets/net.onnx", "mlp"]
batch_size = 4
[design]
replicates = 1
[measure]
iterations = 3
warmup = 1
[data]
samples = 64
"""


def write(path: Path, units: int = 10, shape: tuple[Any, ...] = ("n", 1, 28, 28), inputs: int = 1) -> None:
    """A dense layer on flattened samples, its weights in a file beside it; further inputs are added to it."""
    features = int(np.prod(shape[1:]))
    weight = numpy_helper.from_array(np.zeros((features, units), np.float32), "w")
    nodes = [helper.make_node("Flatten", ["x0"], ["f0"]), helper.make_node("MatMul", ["f0", "w"], ["y0"])]
    nodes += [helper.make_node("Add", [f"y{i - 1}", f"x{i}"], [f"y{i}"]) for i in range(1, inputs)]
    given = [helper.make_tensor_value_info("x0", TensorProto.FLOAT, list(shape))]
    given += [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [units]) for i in range(1, inputs)]
    result = helper.make_tensor_value_info(f"y{inputs - 1}", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", given, [result], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".data").unlink(missing_ok=True)  # what is there would be added to
    aside = {"save_as_external_data": True, "location": f"{path.stem}.data", "size_threshold": 0}
    onnx.save(model, path, **aside)


def write_function(path: Path, location: str) -> None:
    """The same dense layer as a function of the model's own, whose weights are a constant in another file."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[784, 10], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", str(4 * 7840))):
        weight.external_data.add(key=key, value=value)
    inner = [helper.make_node("Constant", [], ["w"], value=weight), helper.make_node("MatMul", ["f", "w"], ["y"])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    dense = helper.make_function("mine", "Dense", ["f"], ["y"], inner, opsets[:1])
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("Dense", ["f"], ["y"], domain="mine")]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 28, 28])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [given], [result])
    model = helper.make_model(graph, opset_imports=opsets, functions=[dense], ir_version=9)
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder with files, good and bad, and a study of the good one."""
    write(tmp_path / "nets/net.onnx")
    write(tmp_path / "nets/small.onnx", shape=("n", 1, 8, 8))
    write(tmp_path / "nets/pair.onnx", inputs=2)
    write(tmp_path / "nets/four.onnx", shape=(4, 1, 28, 28))
    write(tmp_path / "nets/alone.onnx")
    (tmp_path / "nets/alone.data").unlink()
    (tmp_path / "nets/text.onnx").write_text("no model")
    write(tmp_path.with_name(f"{tmp_path.name}-outside") / "net.onnx")
    (tmp_path / "nets/linked.onnx").symlink_to(tmp_path.with_name(f"{tmp_path.name}-outside") / "net.onnx")
    write_function(tmp_path / "nets/function.onnx", "net.data")
    write_function(tmp_path / "nets/inside.onnx", "../outside.data")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


SENTENCES = {
    "onnx:nets/none.onnx: there is no such file in": "none",
    "text.onnx is no ONNX model": "text",
    "onnx:nets/small.onnx cannot be run on mnist: it takes samples of 1x8x8, not 1x28x28": "small",
    "onnx:nets/pair.onnx cannot be run on mnist: it has 2 inputs (x0, x1), not one": "pair",
    "onnx:nets/alone.onnx: its weights are in alone.data, which is not beside it": "alone",
    "onnx:nets/linked.onnx is a link to": "linked",
    "onnx:nets/inside.onnx: its weights are in ../outside.data, which is not beside it": "inside",
}


@pytest.mark.framework("onnxruntime")
def test_what_is_wrong_with_a_file_is_one_sentence(room: Path) -> None:
    usual = {"paths": [str(room)], "dataset": "mnist", "shape": [1, 28, 28], "classes": 10}
    names = [*SENTENCES.values(), "four", "function"]
    job = {"questions": [{**usual, "network": f"onnx:nets/{name}.onnx"} for name in names]}
    *wrong, four, function = worker.answers(
        environment("onnxruntime"), "adapters.onnxruntime.own_code", job, PATIENCE_S
    )
    for sentence, answer in zip(SENTENCES, wrong, strict=True):
        assert sentence in answer["error"]
    assert set(four["files"]) == {"nets/four.onnx", "nets/four.data"}, "a fixed batch is a matter of each trial"
    assert set(function["files"]) == {"nets/function.onnx", "nets/net.data"}, "what a function of its own reads counts"


@pytest.mark.framework("onnxruntime")
def test_a_file_is_measured_beside_a_network_of_ours_and_another_content_is_another_trial(
    room: Path, steplab: Callable[..., Any]
) -> None:
    ran = steplab("run", "study.toml", timeout=PATIENCE_S)
    assert f"onnx:nets/net.onnx: the ranks run networks from {room}; it is tried first" in ran.err
    found = {
        (record.config["framework"], record.config["network"]): record
        for record in records.all_records(StudyFolder(room / "runs/mine"))
    }
    assert {key: record.status for key, record in found.items()} == {
        ("onnxruntime", "onnx:nets/net.onnx"): "ok",
        ("onnxruntime", "mlp"): "ok",
        ("torch", "onnx:nets/net.onnx"): "unsupported",
        ("torch", "mlp"): "ok",
    }
    assert found["torch", "onnx:nets/net.onnx"].reason == "an ONNX file runs in ONNX Runtime only"
    record = found["onnxruntime", "onnx:nets/net.onnx"]
    assert set(record.own_code) == {"nets/net.onnx", "nets/net.data"}
    assert record.versions["onnxruntime"].startswith("1.") and record.ranks[0].compile_s is not None

    again = steplab("run", "study.toml", "--dry-run", "--json", timeout=PATIENCE_S).json
    assert again["left"] == 0
    data = bytearray((room / "nets/net.data").read_bytes())
    data[0] ^= 1
    (room / "nets/net.data").write_bytes(data)
    changed = steplab("run", "study.toml", "--dry-run", "--json", timeout=PATIENCE_S).json
    assert (changed["left"], changed["ok"]) == (1, 2)


@pytest.mark.framework("onnxruntime")
def test_a_batch_that_a_file_does_not_take_is_unsupported_with_the_reason(
    room: Path, steplab: Callable[..., Any]
) -> None:
    text = STUDY.replace("net.onnx", "four.onnx").replace(', "torch"', "").replace(', "mlp"', "")
    (room / "study.toml").write_text(text.replace("batch_size = 4", "batch_size = [4, 5]"))
    steplab("run", "study.toml", timeout=PATIENCE_S)
    found = {record.config["batch_size"]: record for record in records.all_records(StudyFolder(room / "runs/mine"))}
    assert (found[4].status, found[5].status) == ("ok", "unsupported")
    assert "onnx:nets/four.onnx: its batch is fixed at 4, not 5" in found[5].reason
    roofline = steplab("roofline", "runs/mine", "--machine", "a100", "--modules", room, "--json", timeout=PATIENCE_S)
    assert roofline.code == 0, roofline.err
    assert [point["layer"] for point in roofline.json["points"]]
    refused = steplab("roofline", "runs/mine", "--machine", "a100")
    assert "onnx:nets/four.onnx: where the file is, nobody has said; give its folder with --modules" in refused.err

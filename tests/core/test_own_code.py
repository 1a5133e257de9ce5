"""Which code of the user's a trial runs, and what identifies it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from steplab import kinds
from steplab.core.errors import InputError
from steplab.core.own_code import CodeIdentity, CodeUse, OwnCode, code_use, sample_spec
from steplab.core.resolution import data_spec, graph_of, impossible, resolve
from steplab.core.trial import Config

NET = {"framework": "torch", "network": "module:net:make"}
DATA: Config = {"framework": "torch", "network": "lenet5", "dataset": "module:data:make"}


def test_only_pytorch_runs_ones_own_code() -> None:
    assert code_use(NET) == CodeUse("module:net:make", "mnist", "", "")
    assert code_use({"framework": "jax", "network": "module:net:make"}) is None
    assert code_use({"framework": "torch", "network": "lenet5"}) is None
    assert code_use({"step": "module:net:step"}) is not None, "PyTorch is the default"


def test_only_onnx_runtime_runs_an_onnx_file() -> None:
    use = code_use({"framework": "onnxruntime", "network": "onnx:net.onnx"})
    assert use is not None and (use.own, use.framework) == (("onnx:net.onnx",), "onnxruntime")
    assert code_use({"framework": "torch", "network": "onnx:net.onnx"}) is None
    both = {"framework": "onnxruntime", "network": "onnx:net.onnx", "dataset": "module:data:make"}
    assert code_use(both) is None
    assert kinds.named("infer").unsupported(resolve(both)) == "a data set of one's own runs in PyTorch only"


@pytest.mark.parametrize(
    "other", [CodeIdentity({"net.py": "b"}, "g"), CodeIdentity({"net.py": "a"}, "h"), CodeIdentity({"x.py": "a"}, "g")]
)
def test_another_file_or_another_graph_is_other_code(other: CodeIdentity) -> None:
    assert CodeIdentity({"net.py": "a"}, "g").code != other.code


def test_the_order_of_files_does_not_matter() -> None:
    assert CodeIdentity({"a.py": "1", "b.py": "2"}).code == CodeIdentity({"b.py": "2", "a.py": "1"}).code


def test_a_file_that_changed_since_it_was_examined_is_named(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("first")
    files = {"net.py": hashlib.sha256(b"first").hexdigest(), "installed:torchvision.models": "00"}
    own_code = OwnCode(tmp_path, {CodeUse("module:net:make", "mnist", "", ""): CodeIdentity(files)})
    own_code.expect_unchanged()
    file.write_text("second")
    with pytest.raises(InputError, match=r"net\.py: has changed while the study ran; finished trials stay"):
        own_code.expect_unchanged()


def test_a_built_in_network_is_built_for_ones_own_samples() -> None:
    resolved = resolve({**DATA, "sample": "3x32x32/7/500"})
    assert (data_spec(resolved).shape, data_spec(resolved).train) == ((3, 32, 32), 500)
    graph = graph_of(resolved)
    assert graph is not None
    assert graph.shapes()[graph.layers[-1].name] == (7,)


def test_a_data_set_without_classes_fits_no_built_in_network() -> None:
    assert "give it an attribute `classes`" in impossible({**DATA, "sample": "3x32x32/0/500"})
    assert impossible(DATA) == "", "nobody has looked at it yet"


@pytest.mark.parametrize("text", ["", "3x0/1/1", "3x3", "x/1/1", "3x3/1/1\n", "9" * 99 + "/1/1"])
def test_a_strangers_sample_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(InputError, match="does not say what a sample looks like"):
        sample_spec(text)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"framework": "jax", "network": "module:net:make"}, "a network of one's own runs in PyTorch only"),
        ({"framework": "synthetic", "dataset": "module:d:make"}, "a data set of one's own runs in PyTorch only"),
        (NET | {"step": "module:net:step", "strategy": "accumulate:2"}, "updates the weights itself"),
        (NET | {"step": "module:net:step"}, ""),
    ],
)
def test_what_cannot_run_is_known_beforehand(config: Config, reason: str) -> None:
    told = kinds.named("step").unsupported(resolve(config))
    assert reason in told
    assert bool(reason) == bool(told)

"""A command's `--json` is what the API gives."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

import steplab
from steplab.cli import main

Printed = Callable[..., Any]
CLOCKS = ("seconds", "fit_seconds", "bytes")  # what two runs of the same differ by; a report tells how long a fit took


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """The JSON document that a command prints, called in this process."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Any:
        monkeypatch.setattr(sys, "argv", ["steplab", *map(str, arguments), "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return json.loads(capsys.readouterr().out)

    return call


def plain(document: object) -> Any:
    """A document as JSON has it."""
    return json.loads(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS))


def timeless(document: Any) -> Any:
    """The same without what a clock gave."""
    if isinstance(document, dict):
        return {name: timeless(value) for name, value in document.items() if name not in CLOCKS}
    return [timeless(value) for value in document] if isinstance(document, list) else document


def test_status(folder: Path, printed: Printed) -> None:
    assert printed("status", folder) == plain(steplab.open(folder).status().document())


def test_analyze(folder: Path, printed: Printed) -> None:
    assert printed("analyze", folder) == plain(steplab.open(folder).analyze().document())


def test_fit(folder: Path, printed: Printed) -> None:
    fitted = steplab.open(folder).fit("linear", extrinsic=["batch_size", "workers"])
    words = ("--model", "linear", "--extrinsic", "batch_size,workers")
    document = printed("fit", folder, *words)
    assert document.pop("file") is None
    assert timeless(document) == timeless(plain(fitted.document()))


def test_compare(folder: Path, printed: Printed) -> None:
    compared = steplab.open(folder).compare(["linear", "quadratic"], holdout="batch_size>32")
    document = printed("compare", folder, "--models", "linear,quadratic", "--holdout", "batch_size>32")
    assert timeless(document) == timeless(plain(compared.document()))


def test_predict(folder: Path, printed: Printed) -> None:
    model = steplab.open(folder).fit("linear").save("model.json")
    assert model == Path("model.json")
    predicted = steplab.load_model("model.json").predict(["batch_size=64,workers=4", {"batch_size": 8, "workers": 1}])
    words = ("--at", "batch_size=64,workers=4", "--at", "batch_size=8,workers=1")
    assert printed("predict", "model.json", *words) == plain(predicted.document())


def test_export(folder: Path, printed: Printed) -> None:
    exported = steplab.open(folder).export("trials.csv")
    assert printed("export", folder, "--to", "trials.csv") == plain(exported.document())


def test_report(folder: Path, printed: Printed) -> None:
    written = steplab.open(folder).report("page.html", models=["linear"])
    document = printed("report", folder, "--out", "page.html", "--models", "linear")
    assert timeless(document) == timeless(plain(written.document()))


def test_run(study_toml: Path, printed: Printed) -> None:
    document = printed("run", study_toml, "--out", "out", "--limit", "1")
    assert timeless(document) == plain(steplab.open("out").status().counts.document())


def test_plan(study_toml: Path, printed: Printed) -> None:
    assert printed("run", study_toml, "--dry-run") == plain(steplab.plan(study_toml).document())


def test_inspect(printed: Printed) -> None:
    counted = steplab.inspect("lenet5", 4, input_shape=(1, 32, 32), options={"filters": "8"})
    words = ("--batch", "4", "--input", "1x32x32", "--set", "filters=8")
    assert printed("inspect", "lenet5", *words) == plain(counted.document())


def test_memory(printed: Printed) -> None:
    held = steplab.memory("lenet5", 4, optimizer="adam", within="1GB", options={"filters": "8"})
    words = ("--memory", "--batch", "4", "--optimizer", "adam", "--within", "1GB", "--set", "filters=8")
    assert printed("inspect", "lenet5", *words) == plain(held.document())


def test_roofline(printed: Printed) -> None:
    drawn = steplab.roofline("lenet5", "a100", batch=2)
    assert printed("roofline", "lenet5", "--machine", "a100", "--batch", "2") == plain(drawn.document())


def test_env_list(printed: Printed) -> None:
    assert [row["name"] for row in printed("env", "list")["environments"]] == [
        row.name for row in steplab.environments()
    ]


def test_data_list(printed: Printed) -> None:
    assert printed("data", "list")["datasets"] == plain(steplab.list_datasets())

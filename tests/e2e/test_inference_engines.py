"""The engines of docs/frameworks.md in one study: all infer the same network, on the same samples."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import files

from steplab.store import tables

PAGE = Path(__file__).parents[2] / "docs/frameworks.md"
PATIENCE_S = 900  # for a machine that others use
SMALLER = "[design]\nreplicates = 1\n[measure]\niterations = 2\nwarmup = 1\n[data]\nsamples = 64\n"


@pytest.mark.framework("onnxruntime")
def test_engines_beside_each_other_give_the_same_outputs(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    study = re.sub(r"^(network|batch_size) = .*$", "", dict(files(PAGE.read_text()))["engines.toml"], flags=re.M)
    (tmp_path / "engines.toml").write_text(study + SMALLER)
    ran = steplab("run", "engines.toml", timeout=PATIENCE_S)
    assert ran.code == 0, ran.err
    trials = tables.load(tmp_path / "runs/engines").trials
    engines = sorted(trials["framework"] + trials["compile"].map({True: " compiled", False: ""}).fillna(""))
    assert engines == ["jax", "onnxruntime", "tensorflow", "torch", "torch compiled", "velox"]
    assert set(trials["status"]) == {"ok"}
    # The mean of the outputs of the last batch, which is the same one everywhere.
    assert trials["loss"].tolist() == pytest.approx([trials["loss"].iloc[0]] * 6, rel=1e-4)
    assert trials.set_index("framework").loc["onnxruntime", "compile_s"] > 0

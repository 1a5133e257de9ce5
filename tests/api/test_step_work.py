"""What a step computes, counted from a trial's row; and where it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import steplab
from steplab.api.results.step_work import step_work, with_step_work
from steplab.costs.roofs import Ceiling, Ceilings, Level
from steplab_worker.machine import machine

MEMORY = (Level("DRAM", 1e10),)
ROOFS = Ceilings("here", (Ceiling(1, 1e11, MEMORY), Ceiling(2, 1.8e11, MEMORY)), "measured", "a test")
ROW = {
    "framework": "torch", "network": "lenet5", "dataset": "mnist", "batch_size": 8, "workers": 2, "threads": 1,
    "kind": "step", "host": machine().host, "nodes": 1,
}  # fmt: skip
CPU = {("torch", machine().host): "cpu"}
# By hand: products of LeNet-5 forward; of its first convolution, whose input has no gradient.
FORWARD, FIRST = 833_040, 2 * 6 * 28 * 28 * 25


def test_flops_are_those_of_all_workers_forward_and_backward() -> None:
    flops, tokens, roof = step_work(ROW, CPU, ROOFS)
    assert (flops, tokens, roof) == (16 * (3 * FORWARD - FIRST), None, 1.8e11)


def test_an_inference_has_no_backward() -> None:
    assert step_work({**ROW, "kind": "infer"}, CPU, ROOFS)[0] == 16 * FORWARD


def test_a_text_has_as_many_tokens_as_the_network_takes() -> None:
    # A table holds whole numbers as others where some trials have none.
    text = {"network": "gpt2", "dataset": "bytes", "layers": 1.0, "width": 16.0, "heads": 2.0, "sequence": 32.0}
    flops, tokens, _ = step_work({**ROW, **text, "vocabulary": 256.0, "workers": 1}, CPU, None)
    assert tokens == 8 * 32
    # Forward, per token: 12·d² in a block, V·d at the end, and scores and sums over all positions.
    assert flops == 3 * tokens * 2 * (12 * 16**2 + 256 * 16 + 2 * 32 * 16)


@pytest.mark.parametrize(
    "other",
    [{"precision": "bfloat16"}, {"host": "elsewhere"}, {"nodes": 2}],
    ids=["precision", "host", "nodes"],
)
def test_no_roof_is_held_against_what_it_does_not_bound(other: dict[str, Any]) -> None:
    devices = {("torch", host): "cpu" for host in (machine().host, "elsewhere")}
    flops, _, roof = step_work({**ROW, **other}, devices, ROOFS)
    assert flops and roof is None
    assert step_work(ROW, {("torch", machine().host): "NVIDIA"}, ROOFS)[2] is None


@pytest.mark.parametrize("unknown", [{"network": float("nan")}, {"network": "theirs"}, {"network": "module:a:b"}])
def test_what_cannot_be_counted_is_not_known(unknown: dict[str, Any]) -> None:
    assert step_work({**ROW, **unknown}, CPU, ROOFS) == (None, None, None)


def test_a_rehearsal_of_texts_has_tokens_and_no_flops(tmp_path: Path) -> None:
    (tmp_path / "text.toml").write_text(
        '[study]\nname = "text"\n[factors]\nframework = "synthetic"\nnetwork = "gpt2"\ndataset = "bytes"\n'
        "layers = 1\nwidth = 16\nheads = 2\nsequence = [16, 32]\nvocabulary = 256\nbatch_size = 4\n"
        "[measure]\niterations = 4\nwarmup = 1\n"
    )
    findings = steplab.run(tmp_path / "text.toml", tmp_path / "text").analyze()
    groups = json.loads(json.dumps(findings.document()["groups"], default=lambda part: part.__dict__))
    for group in groups:
        expected = 4 * group["factors"]["sequence"] / group["t_iter"]["median"]
        assert group["utilisation"]["tokens_per_s"]["value"] == pytest.approx(expected)
        assert group["utilisation"]["flops_per_s"] is None
    assert findings.configurations["tokens_per_s"].notna().all()
    assert any("tokens/s" in sentence for sentence in findings.sentences)


def test_the_power_of_a_trial_keeps_the_provenance_of_its_joules(tmp_path: Path) -> None:
    joules = [("rapl", 40.0), ("estimated", 60.0), ("none", None)]
    rows = [{**ROW, "trial": "none", "status": "ok", "energy_provenance": source, "energy_j": own, "seconds": 2.0}
            for source, own in joules]  # fmt: skip
    frame = with_step_work(pd.DataFrame(rows), ["workers"], tmp_path)
    nan = float("nan")
    assert frame["watts_rapl"].tolist() == pytest.approx([20.0, nan, nan], nan_ok=True)
    assert frame["watts_estimated"].tolist() == pytest.approx([nan, 30.0, nan], nan_ok=True)

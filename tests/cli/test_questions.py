"""What a person sees of a training, an inference, a cluster's table: the question is answered first, at 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from steplab.store.columns import ALWAYS

Call = Callable[..., SimpleNamespace]
CLUSTER = "gpus,nodes,seconds\n1,1,100\n2,1,52\n4,1,28\n8,1,15.5\n16,2,10\n32,4,6.25\n"
TRAIN = """
[study]
name = "accuracy"
kind = "train"
[factors]
framework = ["synthetic"]
learn_epochs = [1.0, 2.0, 50.0]
noise = [0.02]
[design]
replicates = 2
[train]
epochs = 4
target_accuracy = 0.8
[data]
samples = 256
"""


@pytest.fixture
def narrow(in_process: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Commands in a terminal of 80 columns; a page that is wider fails."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: object) -> SimpleNamespace:
        ran = in_process(*arguments)
        assert "--json" in arguments or all(len(line) <= 80 for line in ran.out.splitlines())
        return ran

    return call


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_training_says_first_who_reached_the_target(tmp_path: Path, narrow: Call) -> None:
    (tmp_path / "study.toml").write_text(TRAIN)
    assert narrow("run", "study.toml", "--out", "out").code == 0
    text = flat(narrow("analyze", "out", "--section", "answer").out)
    assert text.startswith("The target accuracy of 80 % was reached soonest with learn_epochs 1.0: after 2 epochs and")
    assert "Later: learn_epochs 2.0" in text
    assert "Never reached it in 4 epochs: learn_epochs 50.0 (best" in text
    assert text.index("Never reached it") < text.index("Of those that reached it, the highest throughput")
    table = narrow("analyze", "out", "--section", "accuracy").out
    assert [line.split()[0] for line in table.splitlines() if " of 2" in line] == ["1.0", "2.0", "50.0"]
    document = narrow("analyze", "out", "--json").json
    assert [one["standing"] for one in document["training"]["configurations"]] == ["soonest", "later", "not reached"]
    assert len(document["training"]["curves"]) == 6


def test_an_inference_says_its_latencies_and_where_iterations_are_too_few(
    narrow: Call, study_file: Callable[..., Path]
) -> None:
    path = study_file(kind="infer", batch_size=[1, 8], noise=[0.02])
    path.write_text(path.read_text().replace("iterations = 8", "iterations = 40"))
    assert narrow("run", path, "--out", "out").code == 0
    text = flat(narrow("analyze", "out", "--section", "answer").out)
    assert text.startswith("The lowest latency of a batch is that of batch_size 1: p50")
    assert "The highest throughput is" in text
    assert "p99 is not known everywhere: it takes 100 iterations a trial, and there are 40" in text
    assert "p95" in narrow("analyze", "out", "--section", "latency").out


def test_a_cluster_table_has_one_series_and_its_true_worst_efficiency(
    tmp_path: Path, narrow: Call, in_process: Call
) -> None:
    (tmp_path / "cluster.csv").write_text(CLUSTER)
    imported = narrow("import", "csv", "cluster.csv", "--out", "out")
    assert "column 'gpus' is read as workers" in imported.out and "'seconds' is read as t_iter" in imported.out
    text = flat(narrow("analyze", "out", "--section", "answer").out)
    assert text.startswith("The shortest step takes 6.25 s, with workers 32.")
    assert "50% at worst (workers 32)" in text
    assert "nodes follows from workers" in text and "strong scaling" in text
    assert "samples/s with" not in text
    assert in_process("report", "out").code == 0


def test_ones_own_exported_trials_are_recognised(narrow: Call, study_file: Callable[..., Path]) -> None:
    path = study_file(batch_size=[8, 16], workers=[1, 2], noise=[0.02])
    assert narrow("run", path, "--out", "out").code == 0
    assert narrow("export", "out", "--to", "trials.csv").code == 0
    imported = narrow("import", "csv", "trials.csv", "--out", "again")
    assert "this is steplab's own table of trials" in imported.out
    first, again = (narrow("analyze", folder, "--json").json["groups"] for folder in ("out", "again"))
    varied = ("batch_size", "workers")
    assert [[g["factors"][name] for name in varied] for g in again] == [
        [g["factors"][name] for name in varied] for g in first
    ]
    assert set(again[0]["factors"]) == {*ALWAYS, "noise"}  # no result is taken for a factor
    assert [g["throughput"] for g in again] == pytest.approx([g["throughput"] for g in first])


def test_a_roofline_of_an_unknown_network_is_refused_in_one_sentence(tmp_path: Path, narrow: Call) -> None:
    (tmp_path / "cluster.csv").write_text(CLUSTER)
    narrow("import", "csv", "cluster.csv", "--set", "framework=torch,dataset=mnist,batch_size=8", "--out", "out")
    ran = narrow("roofline", "out", "--machine", "a100")
    assert ran.code == 1
    assert flat(ran.err) == (
        "steplab: nothing can be counted: network of its trials is not known; import it again with --set network=…"
    )
    assert "lenet5" not in ran.out.lower()


def test_engines_without_a_batch_size_are_compared_by_time(tmp_path: Path, narrow: Call) -> None:
    rows = [f"{engine},{repeat},{time}" for engine, repeat, time in _times()]
    (tmp_path / "engines.csv").write_text("\n".join(["framework,repeat,latency_ms", *rows]) + "\n")
    assert narrow("import", "csv", "engines.csv", "--out", "out").code == 0
    document = narrow("analyze", "out", "--json").json
    assert [group["factors"]["framework"] for group in document["groups"]] == ["quick", "slow"]
    (pair,) = document["frameworks"]
    assert (pair["measure"], pair["better"]) == ("step time", "quick")


def _times() -> list[tuple[str, int, float]]:
    return [(engine, at, time + at / 100) for engine, time in (("quick", 2.0), ("slow", 4.0)) for at in range(3)]

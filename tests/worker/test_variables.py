"""Environment variables in the record: those that change a framework, and no secrets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab import __version__
from steplab.store import records
from steplab.store.columns import trial_row
from steplab.store.paths import StudyFolder
from steplab_worker import variables

NAMED_IN_THE_MANUALS = (
    "OMP_PROC_BIND", "MKL_DYNAMIC", "KMP_BLOCKTIME", "XLA_FLAGS", "TF_ENABLE_ONEDNN_OPTS", "MXNET_CPU_WORKER_NTHREADS",
    "CUDA_VISIBLE_DEVICES", "NCCL_ALGO", "GLOO_SOCKET_IFNAME", "ONEDNN_MAX_CPU_ISA",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMED_IN_THE_MANUALS)
def test_what_changes_a_framework_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x y")
    assert variables.seen()[name] == "x y"


@pytest.mark.parametrize("name", ["HOME", "TF_VAR_database", "TF_TOKEN_app_example", "JAX_API_KEY", "TORCH_HUB_TOKEN"])
def test_what_may_be_private_is_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "hush")
    assert name not in variables.seen()


def test_a_record_says_what_the_rank_saw_and_what_steplab_set(
    steplab: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path
) -> None:
    ambient = {"XLA_FLAGS": "--a --b", "OMP_NUM_THREADS": "7", "TF_VAR_password": "hush"}
    assert steplab("run", study_file(workers=[2]), "--out", "out", env=ambient).code == 0
    record, _ = records.all_records(StudyFolder(tmp_path / "out"))
    assert record.versions["steplab"] == __version__
    assert len(record.variables) == 2
    for rank in record.variables:
        assert rank.seen["XLA_FLAGS"] == "--a --b"
        assert rank.seen["OMP_NUM_THREADS"] == "1"
        assert "OMP_NUM_THREADS" in rank.own
        assert "XLA_FLAGS" not in rank.own
        assert "hush" not in rank.seen.values()
    shown = trial_row(record)["variables"]
    assert "'XLA_FLAGS=--a --b'" in shown
    assert "OMP_NUM_THREADS" not in shown

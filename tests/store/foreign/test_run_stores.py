"""What is written for MLflow and TensorBoard is read back by their own packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from steplab.core.errors import InputError
from steplab.store import tables
from steplab.store.foreign.imported import must_be_free, write_study
from steplab.store.foreign.mlflow import write_mlflow
from steplab.store.foreign.tensorboard import write_tensorboard
from steplab.store.foreign.times_csv import Wishes, read_times

TIMES = "framework,workers,iteration,t_iter,t_f\ntorch,1,0,3,1\ntorch,1,1,3.5,1\njax,2,0,4,1\njax,2,1,5,1\n"


@pytest.fixture
def study(tmp_path: Path) -> tables.Tables:
    (tmp_path / "times.csv").write_text(TIMES)
    write_study(read_times([tmp_path / "times.csv"], Wishes()), tmp_path / "study", "")
    return tables.load(tmp_path / "study")


@pytest.mark.filterwarnings("ignore")  # MLflow's own, about its file store and its dependencies
def test_mlflow_reads_experiment_parameters_metrics_and_status(
    study: tables.Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.tracking import MlflowClient

    assert write_mlflow(study, "my study", tmp_path / "runs") == 2
    client = MlflowClient((tmp_path / "runs").as_uri())
    (experiment,) = client.search_experiments()
    assert experiment.name == "my study"
    runs = {run.data.params["framework"]: run for run in client.search_runs([experiment.experiment_id])}
    assert runs.keys() == {"torch", "jax"}
    assert runs["jax"].data.params["workers"] == "2"
    assert runs["jax"].data.metrics["t_iter"] == 4.5
    assert runs["jax"].info.status == "FINISHED"
    assert runs["jax"].data.tags["trial"] == runs["jax"].info.run_name
    assert "lif" not in runs["jax"].data.metrics  # unknown is left out, not written as 0


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_iterations_medians_and_hyperparameters(study: tables.Tables, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    assert write_tensorboard(study, tmp_path / "board") == 2
    trial = study.trials.set_index("framework").loc["jax", "trial"]
    events = EventAccumulator(str(tmp_path / "board" / trial))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("iteration/t_iter")] == [(0, 4.0), (1, 5.0)]
    assert [one.value for one in events.Scalars("t_iter")] == [4.5]
    content = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    assert start.hparams["framework"].string_value == "jax"
    assert start.hparams["workers"].number_value == 2


def test_a_target_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        must_be_free(tmp_path / "old")


@pytest.mark.parametrize("write", [lambda study, out: write_mlflow(study, "x", out), write_tensorboard])
def test_what_fails_half_way_leaves_nothing(write, study: tables.Tables, tmp_path: Path) -> None:
    broken = study.trials.assign(trial=["good", "a/../\0bad"], seconds=[1.0, "no number"])
    with pytest.raises((ValueError, OSError)):
        write(tables.Tables(broken, study.iterations, study.layers, study.factors), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study", "times.csv"]


@pytest.mark.parametrize("store", ["tensorboard", "mlflow"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(study: tables.Tables, tmp_path: Path, store: str) -> None:
    # No file may get a byte here, which fails as a full disk does, and needs no mount.
    line = f"ulimit -f 0; exec {Path(sys.executable).with_name('steplab')} export study --to {store}:runs"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "steplab: runs: cannot be written (File too large)"
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*runs*"))

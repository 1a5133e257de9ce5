"""What ranks are told of a trial, and which group of ranks can run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplab.core.resolution import resolve
from steplab.design.plan import PlannedTrial
from steplab.runner.data.datasets import DataSource
from steplab.runner.jobs import group_key, reads_data, trial_job
from steplab.study.file import parse_study
from steplab.study.sections import Study
from steplab_worker import codec
from steplab_worker.job import TrainingPlan, TrialJob

SOURCE = DataSource("mnist", Path("/data/mnist"), "generated", 640)
TRIAL = PlannedTrial({"framework": "torch", "batch_size": 16, "workers": 2, "strategy": "accumulate:4"}, 2)


def study(more: str = "", kind: str = "step") -> Study:
    text = f'[study]\nname = "x"\nkind = "{kind}"\n[factors]\nframework = ["torch"]\n[design]\nseed = 40\n{more}'
    return parse_study(text, Path("study.toml"))


def job(more: str = "", kind: str = "step", trial: PlannedTrial = TRIAL) -> TrialJob:
    return trial_job(study(more, kind), trial, SOURCE, Path("checkpoints"))


def test_a_job_says_everything_that_the_configuration_leaves_to_defaults() -> None:
    told = job()
    assert (told.network, told.dataset, told.input_shape, told.classes) == ("lenet5", "mnist", (1, 28, 28), 10)
    assert (told.batch_size, told.accumulate, told.strategy) == (16, 4, "accumulate:4")
    assert (told.data_folder, told.optimizer, told.phases) == ("/data/mnist", "sgd", True)
    assert told.config == dict(TRIAL.config)


def test_a_job_survives_its_way_to_the_rank() -> None:
    for kind in ("step", "train", "infer"):
        told = job(kind=kind)
        assert codec.decoded(TrialJob, codec.document(told)) == told


def test_replicates_differ_in_their_seed_alone() -> None:
    other = job(trial=PlannedTrial(TRIAL.config, 5))
    assert (job().seed, other.seed) == (42, 45)
    assert {name for name in vars(other) if getattr(other, name) != getattr(job(), name)} == {
        "seed", "trial", "replicate",
    }  # fmt: skip


def test_a_memory_limit_is_told_in_bytes() -> None:
    assert (job().memory_limit_bytes, job("[measure]\nmemory_limit_mb = 3").memory_limit_bytes) == (0, 3 << 20)


def test_a_training_is_told_its_plan_and_where_its_checkpoints_are() -> None:
    plan = TrainingPlan.of(job("[train]\nepochs = 7\nevery = 2\n[measure]\nwarmup = 3", "train"))
    assert plan == TrainingPlan(7, 640, 0, 2, 3, str(Path("checkpoints").absolute()))


def test_only_a_training_is_told_a_plan_and_only_inference_learns_nothing() -> None:
    assert (job().own, job(kind="infer").own) == ({}, {})
    assert [job(kind=kind).learns for kind in ("step", "train", "infer")] == [True, True, False]


def test_a_virtual_framework_reads_no_files() -> None:
    assert not reads_data(resolve({"framework": "synthetic"}))
    assert reads_data(resolve({"framework": "torch"}))
    trial = PlannedTrial({"framework": "synthetic"}, 0)
    assert trial_job(study(), trial, None, Path()).data_folder == ""


@pytest.mark.parametrize(
    "factor", [{"batch_size": 64}, {"network": "mlp"}, {"strategy": "sync"}, {"optimizer": "adam"}]
)
def test_a_group_serves_trials_that_differ_otherwise(factor: dict[str, object]) -> None:
    assert group_key(resolve({**TRIAL.config, **factor})) == group_key(TRIAL.resolved)


@pytest.mark.parametrize("factor", [{"workers": 3}, {"threads": 2}, {"framework": "jax"}, {"environment": "mine"}])
def test_a_group_has_one_framework_environment_and_size(factor: dict[str, object]) -> None:
    assert group_key(resolve({**TRIAL.config, **factor})) != group_key(TRIAL.resolved)


def test_servers_and_strategies_make_other_groups_where_several_workers_need_them() -> None:
    one, two = ({"framework": "mxnet", "workers": workers} for workers in (1, 2))
    for config, differ in ((one, False), (two, True)):
        for factor in ({"strategy": "ps-sync"}, {"servers": 1}):
            assert (group_key(resolve({**config, **factor})) != group_key(resolve(config))) == differ

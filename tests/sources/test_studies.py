"""The studies of the sources in both sizes: planned, timed, and over Slurm with their batch script; nothing runs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import steplab
from steplab.api.measuring.estimate import Expectation, trials_per_start
from steplab.design.plan import plan
from steplab.sources import load_source, source_names
from steplab.sources.source import SIZES

STUDIES = Path(__file__).parents[2] / "studies"
FILES = [
    source.file(study, size)
    for source in map(load_source, source_names())
    for study in source.studies
    for size in SIZES
]
LAPTOP_S = 20 * 60


@pytest.mark.parametrize("name", FILES)
def test_every_study_is_planned_with_an_estimate(name: str, tmp_path: Path) -> None:
    planned = steplab.plan(STUDIES / name, tmp_path / "out")
    assert planned.counts.left == len(planned.trials) > 0
    assert planned.seconds > 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith("-laptop.toml")])
def test_a_laptop_needs_at_most_twenty_minutes_for_a_study(name: str) -> None:
    """By the guess from the networks' sizes: what this machine remembers of other studies has no say in a test."""
    study = steplab.read_study(STUDIES / name)
    trials = plan(study)
    assert Expectation(study, trials_per_start(study, trials), before={}).left(trials, set()) <= LAPTOP_S


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith("-full.toml")])
def test_a_full_size_has_its_batch_script(name: str, tmp_path: Path) -> None:
    planned = steplab.plan(STUDIES / name, tmp_path / "out", executor="slurm")
    jobs = steplab.plan_jobs(planned)
    assert jobs.script.startswith("#!/")
    assert "#SBATCH --time=" in jobs.script
    assert sum(shape.trials for shape in jobs.shapes) == len(planned.trials)
    assert not (tmp_path / "out").exists()


def test_the_sizes_are_those_of_the_sources() -> None:
    def trials(name: str) -> int:
        return len(plan(steplab.read_study(STUDIES / f"{name}.toml")))

    assert trials("tf-sync-vs-accumulate-full") == 2 * 2 * 3 * 3 * 5
    assert trials("ssgd-frameworks-full") == 5 * 3 * 3 * 5
    assert [trials(f"generic-model-{name}-full") for name in ("torch", "tensorflow", "mxnet")] == [1500] * 3
    assert [trials(f"generic-model-{name}-laptop") for name in ("torch", "tensorflow", "mxnet")] == [150] * 3
    assert trials("resattnet3d-full") == 1500


def test_the_parameters_of_the_generic_model_are_those_of_the_published_table() -> None:
    published = pd.read_csv(STUDIES.parent / "docs/sources/data/published/mmu_4_1_parameters.csv")
    factors = steplab.read_study(STUDIES / "generic-model-torch-full.toml").factors
    for name, levels in zip(published["name"], published["levels"], strict=True):
        own = factors[name]
        assert isinstance(own, tuple)
        assert list(own) == [type(own[0])(level) for level in levels.split(";")]

"""The batch script: as the golden file beside this one, and nothing in it breaks out of its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplab.runner.slurm.script import Batch, job_name, name_prefix
from steplab.store.paths import StudyFolder
from steplab.store.submissions import Shape, Submission
from steplab.study.slurm_settings import SlurmSettings

GOLDEN = Path(__file__).with_name("batch_script.txt")
SHAPE = Shape(nodes=2, ranks_per_node=4, cpus_per_rank=3, gpus_per_node=4)
SETTINGS = SlurmSettings(
    partition="gpu", account="lab", qos="high", constraint="a100&ib", time="2:00:00", warning_s=120,
    flags=["--reservation=course"], setup=["module load cuda/12", "ulimit -n 4096"],
)  # fmt: skip


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPLAB_HOME", "/scratch/my cache")
    monkeypatch.delenv("STEPLAB_DATA", raising=False)


def batch(root: str, modules: Path | None = None) -> Batch:
    return Batch(StudyFolder(Path(root)), SETTINGS, modules, python="/opt/steplab/bin/python")


def test_the_script_is_the_golden_one() -> None:
    script = batch("/projects/lab/runs/scaling", Path("/projects/lab/nets")).script(
        Submission(id="0123456789", shape=SHAPE, created=0.0)
    )
    assert script == GOLDEN.read_text()


def test_odd_names_of_folders_stay_one_word() -> None:
    script = batch("/odd %j/it's here").script(Submission(id="0123456789", shape=SHAPE, created=0.0))
    (output,) = (line for line in script.splitlines() if "--output" in line)
    assert output == """#SBATCH --output='/odd %%j/it'"'"'s here/slurm/0123456789.log'"""
    assert script.splitlines()[-1].startswith("exec /opt/steplab/bin/python -P -m ")
    assert """'/odd %j/it'"'"'s here'""" in script.splitlines()[-1]


def test_a_jobs_name_tells_folder_shape_and_submission(tmp_path: Path) -> None:
    here, there = StudyFolder(tmp_path / "a"), StudyFolder(tmp_path / "b")
    assert job_name(here, SHAPE, "0123456789") == f"{name_prefix(here)}n2r4c3g4-0123456789"
    assert name_prefix(here) != name_prefix(there)
    assert name_prefix(here) == name_prefix(StudyFolder(tmp_path / "b" / ".." / "a"))

"""[executor.slurm]: what may be asked of Slurm; a mistake is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplab.core.errors import StudyError
from steplab.study.file import parse_study
from steplab.study.slurm_settings import SlurmSettings, seconds_of

STUDY = '[study]\nname = "x"\n[factors]\nframework = ["synthetic"]\n[executor.slurm]\n'


def settings(lines: str) -> SlurmSettings:
    section = parse_study(STUDY + lines, Path("study.toml")).executors["slurm"]
    assert isinstance(section, SlurmSettings)
    return section


def test_all_fields_of_the_section_are_read() -> None:
    read = settings(
        'partition = "gpu"\naccount = "lab"\nqos = "high"\nconstraint = "a100&ib"\ntime = "2:00:00"\njobs = 8\n'
        "gpus = 2\n"
        'exclusive = false\nretries = 0\nwarning_s = 30\npoll_s = 0.5\nflags = ["--reservation=course"]\n'
        'setup = ["module load cuda"]\n'
    )
    assert (read.partition, read.jobs, read.gpus, read.time_s) == ("gpu", 8, 2, 7200)
    assert (read.flags, read.setup) == (["--reservation=course"], ["module load cuda"])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('partition = "a b"', "line 6, executor.slurm.partition"),
        ('partition = "x\\n#SBATCH --wrap=rm"', "executor.slurm.partition"),
        ('time = "soon"', "must be minutes, hours:minutes:seconds"),
        ('time = "0"', "must be more than nothing"),
        ("jobs = 0", "greater than or equal to 1"),
        ('flags = ["-p main"]', "must be written --name or --name=value"),
        ('flags = ["--output=/tmp/x"]', "must not hold --output, which the laboratory sets itself"),
        ('flags = ["--partition=x"]', "there is a field 'partition' for it"),
        ('setup = ["a\\nb"]', "must be one line of plain text"),
        ('partitions = "main"', "did you mean 'partition'?"),
    ],
)
def test_a_wrong_setting_is_one_sentence(line: str, told: str) -> None:
    with pytest.raises(StudyError) as error:
        settings(line + "\n")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("limit", ["", "1:2:3:4", "-5", "1h", "1:xx"])
def test_a_time_limit_that_slurm_would_not_read(limit: str) -> None:
    with pytest.raises(ValueError, match="must be minutes"):
        seconds_of(limit)

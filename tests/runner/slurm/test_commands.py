"""Slurm's own commands, played by small scripts: what they print is read, what goes wrong is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from steplab.core.errors import EnvironmentFault
from steplab.runner.slurm import commands
from steplab.runner.slurm.commands import Job, SlurmRefused, SlurmSilent
from steplab.runner.slurm.states import meaning

Play = Callable[[str, str], None]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Put a shell script in the place of one of Slurm's commands; there are no others."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def put(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return put


def test_the_queue_is_read_line_by_line_and_a_reason_may_hold_anything(play: Play) -> None:
    play("squeue", 'printf "7|steplab-a|PENDING||(a|b) c\\n8|x|RUNNING|n[1-2]|None\\nrubbish\\n"')
    assert commands.queue() == [
        Job("7", "steplab-a", "PENDING", "", "(a|b) c"),
        Job("8", "x", "RUNNING", "n[1-2]", "None"),
    ]


def test_the_number_of_a_job_is_told_with_or_without_its_cluster(play: Play) -> None:
    play("sbatch", 'echo "12;box"')
    assert commands.submit("#!/bin/bash\n") == "12"


def test_variables_that_would_overrule_the_script_are_not_passed_on(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_JOB_NAME", "mine")
    monkeypatch.setenv("SBATCH_ACCOUNT", "ours")
    play("sbatch", '[ -z "$SBATCH_JOB_NAME" ] && [ "$SBATCH_ACCOUNT" = ours ] && echo 3')
    assert commands.submit("") == "3"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Invalid account", SlurmRefused),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", SlurmSilent),
        ("sbatch: error: Socket timed out on send/recv operation", SlurmSilent),
    ],
)
def test_a_refusal_is_no_silence(play: Play, said: str, kind: type[EnvironmentFault]) -> None:
    play("sbatch", f'echo "{said}" >&2; exit 1')
    with pytest.raises(EnvironmentFault) as fault:
        commands.submit("")
    assert type(fault.value) is kind
    assert "\n" not in str(fault.value)


def test_without_accounting_nothing_is_known(play: Play) -> None:
    play("sacct", 'echo "Slurm accounting storage is disabled" >&2; exit 1')
    assert commands.accounts(["7"]) == {}
    assert not commands.has_accounting()


# What `sacct` of a real Slurm 22.05 with slurmdbd and MariaDB printed for a job of each kind.
SACCT = Path(__file__).with_name("sacct.txt")


def test_accounting_tells_every_way_to_end_apart(play: Play) -> None:
    play("sacct", f'for job in "$@"; do last=$job; done; [ "$last" = "--jobs=1,2,3,4,5,6,7" ] && cat {SACCT}')
    ends = {number: meaning(state) for number, state in commands.accounts(list("1234567")).items()}
    assert {number: (end.status, end.words) for number, end in ends.items()} == {
        "1": ("failed", "ended by itself"),
        "2": ("failed", "failed"),
        "3": ("out-of-memory", "ran out of memory"),
        "4": ("timeout", "ran into its time limit"),
        "5": ("killed", "was cancelled"),
        "6": ("killed", "lost a node"),
        "7": ("killed", "was preempted by another job"),
    }


def test_partitions_are_listed(play: Play) -> None:
    play("sinfo", 'printf "main*|up|1:00:00|4|8|(null)\\ngpu|down|infinite|2|64|gpu:a100:4\\n"')
    main, gpu = commands.partitions()
    assert (main.name, main.default, main.up, main.gpus) == ("main", True, True, "")
    assert (gpu.name, gpu.default, gpu.up, gpu.gpus) == ("gpu", False, False, "gpu:a100:4")


def test_a_command_that_is_not_here_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="there is no `squeue` here"):
        commands.queue()
    assert commands.missing() == list(commands.NEEDED)


def test_an_address_is_the_nodes_own(play: Play) -> None:
    play("scontrol", 'echo "NodeName=n1 Arch=x NodeAddr=10.0.0.7 NodeHostName=n1"')
    assert commands.address("n1") == "10.0.0.7"

"""The record of a trial from what was measured, without any process."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steplab import __version__
from steplab.core.record import Attempt, EnvironmentInfo, Epoch, Gpu, Record, Variables, parse_record
from steplab.design.plan import PlannedTrial
from steplab.kinds.director import Findings
from steplab.runner.attempt import Measured, RanksInfo
from steplab.runner.data.datasets import DataSource
from steplab.runner.instruments.surroundings import Seen
from steplab.runner.ranks.conversation import Failure, Outcome
from steplab.runner.trial_record import repeat_command, trial_record
from steplab.store.paths import StudyFolder
from steplab.store.records import record_json
from steplab.study.file import parse_study
from steplab.study.sections import Study
from steplab_worker.machine import Machine
from steplab_worker.messages import Hello, Measurement, ModeTimes, Result, Usage

TRIAL = PlannedTrial({"framework": "synthetic", "batch_size": 8, "workers": 2}, 3)
BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MACHINE = Machine("host", "Linux", "a CPU", 2, 4, None, 1 << 30, "", "3.11")


def study(more: str = "", kind: str = "step") -> Study:
    text = f'[study]\nname = "x"\nkind = "{kind}"\n[factors]\nframework = ["synthetic"]\n{more}'
    return parse_study(text, Path("study.toml"))


def result(seconds: float, **methods: str) -> Result:
    measurement = Measurement({"native": ModeTimes({"t_iter": [seconds]}, [False])}, float("nan"), None, methods)
    return Result(measurement, Usage(1.5, 1e6))


MEASURED = Measured(
    outcome=Outcome({1: result(0.2), 0: result(0.1, layer_method="hooks")}, {0: 0.0, 1: 1e-3}),
    findings=Findings(),
    started=BEGAN,
    seconds=2.5,
    ranks=RanksInfo(
        EnvironmentInfo(name="e", python="/python", lock=["numpy==1"]),
        {"synthetic": "1"},
        (Variables(seen={"A": "1"}, own=[]), Variables(seen={}, own=[])),
        {rank: Hello(rank, 100 + rank, "token", MACHINE) for rank in range(2)},
    ),
    log_tail="printed",
)
FAILED = replace(MEASURED, outcome=Outcome(failure=Failure("crashed", "rank 1 crashed", 1)), log_tail="Traceback")


def made(measured: Measured = MEASURED, told: Study | None = None, failed: tuple[Attempt, ...] = ()) -> Record:
    """The record, after a way through its file."""
    record = trial_record(told or study(), TRIAL, measured, failed, "steplab run x")
    return parse_record(record_json(record), "r.json")


def test_it_tells_what_each_rank_measured_in_their_order() -> None:
    record = made()
    assert (record.status, record.reason, record.log_tail, record.seconds) == ("ok", "", "printed", 2.5)
    assert [rank.modes["native"].columns["t_iter"] for rank in record.ranks] == [[0.1], [0.2]]
    assert [(rank.pid, rank.clock_offset_s, rank.loss) for rank in record.ranks] == [
        (100, 0.0, None),
        (101, 1e-3, None),
    ]


def test_it_holds_the_whole_configuration_and_where_it_ran() -> None:
    record = made()
    assert (record.trial, record.replicate, record.config) == (TRIAL.id, 3, dict(TRIAL.config))
    assert (record.resolved.batch_size, record.resolved.network, record.threads) == (8, "lenet5", 1)
    assert record.versions == {"steplab": __version__, "synthetic": "1", "layer_method": "hooks"}
    assert (record.machine.cpus, record.environment.lock if record.environment else None) == (4, ["numpy==1"])
    assert (record.started, record.command) == ("2026-01-02T03:04:05.000+00:00", "steplab run x")
    assert [one.seen for one in record.variables] == [{"A": "1"}, {}]


def test_a_failure_is_a_record_with_its_reason_and_the_attempts_before() -> None:
    before = Attempt(status="killed", reason="by a person", seconds=1.0)
    record = made(FAILED, failed=(before,))
    assert (record.status, record.reason, record.log_tail) == ("crashed", "rank 1 crashed", "Traceback")
    assert (record.ranks, record.attempts) == ([], [before])
    assert record.versions["synthetic"] == "1"


def test_a_trial_that_no_rank_took_has_no_environment() -> None:
    outcome = Outcome(failure=Failure("unsupported", "cannot", 0))
    record = made(Measured(outcome, Findings(), BEGAN, 0.0))
    assert (record.status, record.environment, record.variables) == ("unsupported", None, [])
    assert record.machine.host is None
    assert record.versions == {"steplab": __version__}


def test_ranks_that_could_not_be_opened_tell_their_machine() -> None:
    outcome = Outcome(failure=Failure("failed", "no framework", 0, machine=MACHINE))
    assert made(Measured(outcome, Findings(), BEGAN, 0.0)).machine.host == "host"


def test_a_training_adds_its_epochs_its_target_and_its_notes() -> None:
    epoch = Epoch(
        epoch=1, seconds=2.0, validation_s=0.1, iterations=5, loss=1.0, train_accuracy=0.5, validation_accuracy=0.4
    )
    told = study("[train]\nepochs = 7\ntarget_accuracy = 0.9", "train")
    record = made(replace(MEASURED, findings=Findings(("no checkpoint",), (epoch,), 0.9)), told)
    assert (record.kind, record.epochs, record.target_accuracy, record.reason) == (
        "train",
        [epoch],
        0.9,
        "no checkpoint",
    )
    assert (record.measure.epochs, record.measure.iterations) == (7, 50)


def test_data_that_was_read_is_named() -> None:
    assert (made().data.name, made().data.source) == ("mnist", "none")
    source = DataSource("mnist", Path("/data/mnist"), "generated", 640)
    assert made(replace(MEASURED, source=source)).data.model_dump() == {
        "name": "mnist", "source": "generated", "samples": 640, "folder": "/data/mnist",
    }  # fmt: skip


def test_what_happened_around_counts_for_trials_that_were_measured() -> None:
    seen = Seen(other_cpu_s=0.5, throttled="", gpus={1: Gpu(name="g")})
    told = study("[measure]\nwatts_per_cpu = 10")
    record = made(replace(MEASURED, seen=seen), told)
    assert (record.other_cpu_s, record.throttled) == (0.5, "")
    assert [rank.gpu.name if rank.gpu else None for rank in record.ranks] == [None, "g"]
    # 10 W, two ranks of 1.5 s each.
    assert (record.energy.provenance, record.energy.joules) == ("estimated", pytest.approx(30.0))
    failed = made(replace(FAILED, seen=seen), told)
    assert (failed.other_cpu_s, failed.energy.provenance) == (None, "none")


def test_the_command_repeats_the_trial_into_another_folder(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "my runs")
    told = repeat_command(folder, TRIAL, Path("/code"))
    assert told.startswith(f"steplab run '{tmp_path}/my runs/study.toml' --trial {TRIAL.id} ")
    assert told.endswith(f"--out '{tmp_path}/my runs-repeat' --modules /code")

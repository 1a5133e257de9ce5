"""Which modes a trial of kind `step` has: collectives can be watched where an iteration cannot be run in parts."""

from __future__ import annotations

import pytest

from steplab_worker import networks
from steplab_worker.adapter import Within
from steplab_worker.adapters import synthetic
from steplab_worker.job import TrialJob
from steplab_worker.kinds import step
from steplab_worker.messages import Block, Iterate
from steplab_worker.phases import TIMED


class Watched(synthetic.Session):
    """A session whose collectives take a second each."""

    def communication(self) -> tuple[float, float]:
        return 1.0, 0.25


class Sharded(synthetic.Session):
    """A session whose passes hold their collectives: one in forward, two in backward, of known seconds."""

    exchanges_within = True
    waited, moving, meetings = 0.0, 0.0, 0

    def forward(self) -> None:
        self.advance(3.0)
        self.collective(0.5, 2.0)

    def backward(self) -> None:
        self.collective(0.25, 1.0)
        self.advance(5.0)
        self.collective(0.125, 4.0)

    def collective(self, waited: float, moving: float) -> None:
        barrier = self.job.options["barrier_s"]
        self.advance(waited + barrier + moving)
        self.waited, self.moving, self.meetings = (
            self.waited + waited + barrier,
            self.moving + moving,
            self.meetings + 1,
        )

    def within(self) -> Within:
        within = Within(self.waited, self.moving, self.meetings)
        self.waited, self.moving, self.meetings = 0.0, 0.0, 0
        return within


def test_collectives_within_the_passes_are_no_part_of_them_and_their_barriers_no_waiting() -> None:
    job = job_of(barrier_s=0.0625)
    session = Sharded(job, networks.build("mlp"), 0, 2)
    columns = step.run(job, session, lambda *_: Iterate(3, False, True), 0).modes["phased"].columns
    assert columns["t_f"] == [3.0] * 3 and columns["t_b"] == [5.0] * 3
    assert columns["t_wait"] == [0.875] * 3 and columns["t_move"] == [7.0] * 3
    assert columns["t_barrier"] == [3 * 0.0625] * 3
    parts = [columns[name] for name in TIMED]
    assert [sum(iteration) for iteration in zip(*parts, strict=True)] == pytest.approx(columns["t_iter"])


def job_of(phases: bool = True, **said: float) -> TrialJob:
    options = {name: said["default"] for name, said in synthetic.DECLARATION["factors"].items()}
    return TrialJob(
        trial="t", replicate=0, kind="step", config={}, network="mlp", network_options={}, input_shape=(1, 28, 28),
        classes=10, dataset="mnist", data_folder="", batch_size=4, accumulate=1, strategy="sync", optimizer="sgd",
        learning_rate=0.01, loader_workers=0, prefetch=2, options={**options, **said}, phases=phases,
        memory_limit_bytes=0, seed=1,
    )  # fmt: skip


def measured(has_phases: bool, overlap_method: str, phases: bool = True) -> tuple[list[str], dict[str, str]]:
    job = job_of(phases)
    session = Watched(job, networks.build("mlp"), 0, 1)
    session.has_phases, session.overlap_method = has_phases, overlap_method
    result = step.run(job, session, lambda block, kind: Iterate(3, False, isinstance(block, Block)), 0)
    return list(result.modes), result.methods


@pytest.mark.parametrize(
    ("has_phases", "overlap_method", "modes"),
    [
        (True, "hook", ["native", "phased", "overlap"]),
        (True, "none", ["native", "phased"]),
        (False, "hook", ["native", "overlap"]),
        (False, "none", ["native"]),
    ],
)
def test_a_session_is_measured_in_the_modes_that_it_has(
    has_phases: bool, overlap_method: str, modes: list[str]
) -> None:
    assert measured(has_phases, overlap_method)[0] == modes


def test_without_phases_in_the_study_there_is_one_mode_and_no_method() -> None:
    assert measured(True, "hook", phases=False) == (["native"], {})

"""Which modes a trial of kind `step` has: collectives can be watched where an iteration cannot be run in parts."""

from __future__ import annotations

import pytest

from steplab_worker import networks
from steplab_worker.adapters import synthetic
from steplab_worker.job import TrialJob
from steplab_worker.kinds import step
from steplab_worker.messages import Block, Iterate


class Watched(synthetic.Session):
    """A session whose collectives take a second each."""

    def communication(self) -> tuple[float, float]:
        return 1.0, 0.25


def measured(has_phases: bool, overlap_method: str, phases: bool = True) -> tuple[list[str], dict[str, str]]:
    options = {name: said["default"] for name, said in synthetic.DECLARATION["factors"].items()}
    job = TrialJob(
        trial="t", replicate=0, kind="step", config={}, network="mlp", network_options={}, input_shape=(1, 28, 28),
        classes=10, dataset="mnist", data_folder="", batch_size=4, accumulate=1, strategy="sync", optimizer="sgd",
        learning_rate=0.01, loader_workers=0, prefetch=2, options=options, phases=phases, memory_limit_bytes=0, seed=1,
    )  # fmt: skip
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

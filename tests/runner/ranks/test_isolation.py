"""Which trials share processes: those of a block, or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steplab.store import records
from steplab.store.paths import StudyFolder


def processes(folder: Path) -> dict[int, list[int]]:
    """The rank's process of every trial, by replicate."""
    found: dict[int, list[int]] = defaultdict(list)
    for record in records.all_records(StudyFolder(folder)):
        found[record.replicate] += [rank.pid for rank in record.ranks]
    return found


def test_trials_of_a_block_share_warm_ranks_and_each_block_gets_fresh_ones(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    assert steplab("run", study_file(batch_size=[1, 2, 3]), "--out", "out").code == 0
    by_block = processes(tmp_path / "out")
    assert [len(set(pids)) for pids in by_block.values()] == [1, 1]
    assert len({pid for pids in by_block.values() for pid in pids}) == 2


def test_isolation_by_process_gives_every_trial_ranks_of_its_own(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    study = study_file(batch_size=[1, 2, 3], workers=[2], measure='isolation = "process"')
    assert steplab("run", study, "--out", "out").code == 0
    pids = [pid for pids in processes(tmp_path / "out").values() for pid in pids]
    assert len(pids) == len(set(pids)) == 12

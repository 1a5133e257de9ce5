"""The ceilings of this machine: measured by a worker, kept, measured again."""

import sys
from pathlib import Path

import pytest

from steplab.core.errors import EnvironmentFault
from steplab.costs.roofs import Ceiling, Ceilings, Level
from steplab.runner.instruments import ceilings as subject
from steplab.runner.instruments.ceilings import best_of, ceilings, measure
from steplab.runner.instruments.cpu_caches import Cache, data_caches


def roofs(flops: float, rate: float, others: float = 0.01) -> Ceilings:
    row = Ceiling(1, flops, (Level("L3", 4 * rate, 1e6, 0.1, "read"), Level("DRAM", rate, spread=0.2)), 0.2, others)
    return Ceilings("mine", (row,), "measured", "test", "today", ("a note",))


def test_the_systems_caches_are_read(tmp_path: Path) -> None:
    for at, words in enumerate(
        (("Data", "1", "32K", "0"), ("Instruction", "1", "32K", "0"), ("Unified", "3", "32M", "0-3,8"))
    ):
        (tmp_path / f"index{at}").mkdir()
        for name, word in zip(("type", "level", "size", "shared_cpu_list"), words, strict=True):
            (tmp_path / f"index{at}" / name).write_text(word + "\n")
    (tmp_path / "index9").mkdir()
    assert data_caches(tmp_path) == [Cache("L1", 32 << 10, 1), Cache("L3", 32 << 20, 5)]
    assert data_caches(tmp_path / "none") == []


def test_threads_share_some_caches_and_have_others_of_their_own() -> None:
    assert [Cache("L2", 100, 1).capacity(threads) for threads in (1, 3)] == [100, 300]
    assert [Cache("L3", 100, 4).capacity(threads) for threads in (1, 4, 5)] == [100, 100, 200]


def test_numpy_measures_where_no_framework_is(monkeypatch: pytest.MonkeyPatch, no_orphans) -> None:
    monkeypatch.setattr(subject, "thread_counts", lambda cpus: [1])
    told: list[float] = []
    found = measure("ceilings", Path(sys.executable), 0.2, told.append)
    (row,) = found.rows
    assert found.source.startswith("NumPy")
    assert row.flops_per_s > 1e8 and row.bytes_per_s > 1e8
    assert row.levels[-1].name == "DRAM"
    rates = [level.bytes_per_s for level in row.levels]
    assert rates == sorted(rates, reverse=True)
    assert 0 <= row.spread < 1 and 0 <= (row.others or 0) <= 1
    assert told == sorted(told) and told[-1] <= 1


def test_a_worker_that_fails_is_one_sentence() -> None:
    with pytest.raises(EnvironmentFault, match="cannot be measured: "):
        measure("steplab_worker.no_such_module", Path(sys.executable), 0.1, lambda share: None)


def test_ceilings_are_measured_once_until_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path))
    answers = [roofs(1.0, 1.0), roofs(2.0, 2.0), roofs(3.0, 3.0)]
    monkeypatch.setattr(subject, "measure_here", lambda seconds, progress: answers.pop(0))
    assert ceilings() == ceilings() == roofs(1.0, 1.0)
    assert ceilings(remeasure=True) == ceilings() == roofs(2.0, 2.0)
    (kept,) = (tmp_path / "ceilings").glob("*.json")
    kept.write_text('{"format": 1, "rows": 5')
    assert ceilings() == roofs(3.0, 3.0)


def test_a_disturbed_measurement_only_raises_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path))
    answers = [roofs(2.0, 2.0), roofs(1.0, 3.0, others=0.8)]
    monkeypatch.setattr(subject, "measure_here", lambda seconds, progress: answers.pop(0))
    ceilings()
    row = ceilings(remeasure=True).rows[0]
    assert (row.flops_per_s, row.bytes_per_s, row.others) == (2.0, 3.0, 0.01)


def test_what_was_reached_once_can_be_reached() -> None:
    (row,) = best_of(roofs(10.0, 1.0), roofs(8.0, 2.0)).rows
    assert (row.flops_per_s, row.bytes_per_s) == (10.0, 2.0)


def test_a_cache_that_one_measurement_missed_is_kept_if_it_is_faster_than_what_lies_behind() -> None:
    def seen(*levels: Level) -> Ceilings:
        return Ceilings("mine", (Ceiling(1, 1.0, (*levels, Level("DRAM", 1.0))),), "measured", "test")

    both = best_of(seen(Level("L2", 9.0, 10.0)), seen(Level("L1", 4.0, 1.0), Level("L3", 3.0, 99.0)))
    assert [level.name for level in both.rows[0].levels] == ["L2", "L3", "DRAM"]

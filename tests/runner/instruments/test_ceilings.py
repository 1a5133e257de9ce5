"""The ceilings of this machine: measured by a worker, kept, measured again."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from steplab.core.errors import EnvironmentFault
from steplab.costs.roofs import Ceiling, Ceilings, Level
from steplab.runner.instruments import ceiling_measurement
from steplab.runner.instruments import ceilings as subject
from steplab.runner.instruments.ceiling_measurement import measure, with_bfloat16
from steplab.runner.instruments.ceilings import best_of, ceilings
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
    monkeypatch.setattr(ceiling_measurement, "thread_counts", lambda cpus: [1])
    told: list[float] = []
    found = measure("ceilings", Path(sys.executable), 0.2, told.append)
    (row,) = found.rows
    assert found.source.startswith("NumPy")
    assert row.flops_per_s > 1e8 and row.bytes_per_s > 1e8
    assert row.levels[-1].name == "DRAM"
    slots = ceiling_measurement._slots(ceiling_measurement._job(data_caches(), [1], 0.2))
    # A step for each slot; NumPy leaves out those that it has no loop for.
    assert told == pytest.approx([(at + 1) / slots for at in range(len(told))])


CACHES = [Cache("L1", 32 << 10, 1), Cache("L2", 1 << 20, 1), Cache("L3", 32 << 20, 4)]


def seen(slots: dict[tuple[str, str], list[float]], others: float = 0.0, available: float = 0.0) -> Ceiling:
    """The row of two threads whose slots reached these rates, each rate in a sample of its own."""
    row = ceiling_measurement._Seen(others=others, available=available)
    for (level, kernel), rates in slots.items():
        for rate in rates:
            row.add({"level": level, "kernel": kernel, "rates": [rate]})
    return ceiling_measurement._ceiling(2, row, CACHES)


def test_a_roof_is_the_best_repetition_of_the_best_kernel_and_its_spread_that_of_this_kernel() -> None:
    row = seen({
        ("compute", "512"): [90.0, 10.0, 20.0], ("compute", "1024"): [100.0, 80.0, 60.0],
        ("L2", "triad"): [30.0, 28.0, 26.0], ("L2", "read"): [40.0, 38.0, 20.0],
        ("DRAM", "triad"): [10.0, 9.0, 8.0], ("DRAM", "read"): [9.5, 9.5, 9.5],
    })  # fmt: skip
    assert (row.threads, row.flops_per_s, row.spread) == (2, 100.0, pytest.approx(0.2))
    assert row.levels == (
        Level("L2", 40.0, 2 << 20, pytest.approx(0.05), "read"),
        Level("DRAM", 10.0, float("inf"), pytest.approx(0.1), "triad"),
    )


@pytest.mark.parametrize(("product", "memory"), [(6.0, 9.0), (9.0, 6.0)])
def test_the_spread_of_a_row_is_the_larger_one_of_products_and_main_memory(product: float, memory: float) -> None:
    rates = {("compute", "512"): [10.0, product, product], ("DRAM", "read"): [10.0, memory, memory]}
    assert seen({**rates, ("L2", "read"): [20.0, 2.0, 2.0]}).spread == pytest.approx(0.4)


def test_a_cache_that_seems_no_faster_than_what_lies_behind_it_is_left_out() -> None:
    """Seen from main memory on: L3 is slower than it, L2 faster, L1 faster than main memory and slower than L2."""
    rates = {"compute": 1.0, "DRAM": 10.0, "L3": 8.0, "L2": 30.0, "L1": 20.0}
    row = seen({(level, "read"): [rate] for level, rate in rates.items()})
    assert [(level.name, level.bytes_per_s) for level in row.levels] == [("L2", 30.0), ("DRAM", 10.0)]
    assert "L1, L3: no faster than the next level" in ceiling_measurement._notes((row,), CACHES)[0]


@pytest.mark.parametrize(
    ("others", "available", "share"), [(0.5, 2.0, 0.25), (3.0, 2.0, 1.0), (0.0, 2.0, 0.0), (0.0, 0.0, None)]
)
def test_the_share_of_other_programs_is_of_the_cpu_time_that_passed(
    others: float, available: float, share: float | None
) -> None:
    row = seen({("compute", "512"): [1.0], ("DRAM", "read"): [1.0]}, others, available)
    assert row.others == share


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


def test_roofs_are_known_by_precision_and_fall_back_to_the_usual_one() -> None:
    usual, other = roofs(10.0, 1.0).rows[0], replace(roofs(30.0, 1.0).rows[0], precision="bfloat16")
    both = Ceilings("mine", (usual, other), "measured", "test")
    assert both.precisions == ("float32", "bfloat16")
    assert [both.row(2, precision).flops_per_s for precision in ("", "bfloat16", "float16")] == [10.0, 30.0, 10.0]
    assert best_of(roofs(20.0, 1.0), both).rows == (replace(usual, flops_per_s=20.0), other)


@pytest.mark.framework("torch")
def test_bfloat16_has_a_roof_of_its_own_over_the_same_memory(torch_python: Path, no_orphans: object) -> None:
    measured = with_bfloat16(roofs(10.0, 1.0), "adapters.torch.ceilings", torch_python, 0.2)
    usual, other = measured.rows
    assert (usual.precision, other.precision) == ("float32", "bfloat16")
    assert usual.flops_per_s > 1e8 and other.flops_per_s > 1e8
    assert usual.levels == other.levels


def test_products_that_end_their_process_leave_a_note_and_the_other_roofs(tmp_path: Path) -> None:
    """As on a machine that announces tiles which do not work, if nobody kept oneDNN off them."""
    crashing = tmp_path / "python"
    crashing.write_text("#!/bin/sh\nkill -ILL $$\n")
    crashing.chmod(0o755)
    measured = with_bfloat16(roofs(10.0, 1.0), "adapters.torch.ceilings", crashing, 0.2)
    assert measured.rows == roofs(10.0, 1.0).rows
    assert measured.notes[-1] == "bfloat16: no roof, a product ended its process: it ended with code -4"


def test_products_are_kept_off_tiles_that_do_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling_measurement.amx, "state", lambda: "broken")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    telling = tmp_path / "python"
    telling.write_text('#!/bin/sh\necho "limit $ONEDNN_MAX_CPU_ISA" >&2\nexit 1\n')
    telling.chmod(0o755)
    measured = with_bfloat16(roofs(10.0, 1.0), "adapters.torch.ceilings", telling, 0.2)
    assert measured.notes[-1].endswith("limit AVX512_CORE_BF16")

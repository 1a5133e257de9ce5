"""Roofs: which one limits, and machine files as people write them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab.core.errors import InputError
from steplab.costs.machine_file import machine_names, read_machine
from steplab.costs.roofs import Ceiling, Ceilings, Level, Work, limit, limit_of

MACHINE = Ceiling(1, 100.0, (Level("L2", 400.0, 1e3), Level("L3", 50.0, 1e5), Level("DRAM", 10.0)))
GOOD = """
name = "mine"
source = "its data sheet"
[flops_per_s]
fp32 = 1e12
[[memory]]
name = "L2"
bytes_per_s = 4e11
capacity_bytes = 1e6
[[memory]]
name = "DRAM"
bytes_per_s = 1e11
"""


@pytest.mark.parametrize(
    ("work", "roof", "rate"),
    [
        (Work(flops=1e8, bytes=1e6, cold=1e6), "compute", 100.0),
        (Work(flops=1e6, bytes=1e6, cold=1e6), "DRAM", 10.0),
        (Work(flops=1e4, bytes=1e4), "L3", 50.0),  # fits into L3: may come from the layer before
        (Work(flops=1e4, bytes=1e4, cold=1e4), "DRAM", 10.0),  # fits, but was last touched a step ago
        (Work(flops=100.0, bytes=500.0), "L2", 80.0),
        (Work(flops=1e5, bytes=4e4, cold=1e4), "compute", 100.0),
    ],
)
def test_the_roof_is_the_slowest_of_arithmetic_and_each_level(work: Work, roof: str, rate: float) -> None:
    found = limit(work, MACHINE)
    assert (found.roof, found.flops_per_s) == (roof, pytest.approx(rate))
    assert found.bound == ("compute" if roof == "compute" else "bandwidth")


def test_weights_stay_in_a_cache_that_holds_the_whole_step() -> None:
    work = Work(flops=1e4, bytes=1e4, cold=1e4)
    assert limit(work, MACHINE, footprint=5e4).roof == "L3"
    assert limit(work, MACHINE, footprint=2e5).roof == "DRAM"


positive = st.floats(1e-3, 1e15)


@given(positive, positive, st.floats(0, 1), positive)
def test_no_limit_is_above_the_peak_or_above_the_fastest_level(
    flops: float, moved: float, cold: float, size: float
) -> None:
    work = Work(flops, moved, cold * moved)
    found = limit(work, MACHINE, size)
    assert found.flops_per_s <= 100.0 * (1 + 1e-9)
    assert found.flops_per_s <= work.intensity * 400.0 * (1 + 1e-9)
    assert found.flops_per_s >= min(100.0, work.intensity * 10.0) * (1 - 1e-9)  # never below the simple roofline


def test_levels_without_counted_bytes_do_not_limit() -> None:
    assert limit_of(1000.0, {"DRAM": 1e3, "L1": 1e9}, MACHINE).roof == "DRAM"


def test_a_row_bounds_so_many_threads_and_never_falls_with_more_of_them() -> None:
    def row(threads: int, flops: float, rate: float) -> Ceiling:
        return Ceiling(threads, flops, (Level("L2", 4 * rate, 100.0 * threads), Level("DRAM", rate)))

    # Four threads were measured while the machine was busy.
    roofs = Ceilings("mine", (row(1, 10.0, 5.0), row(2, 19.0, 8.0), row(4, 12.0, 6.0)), "measured", "test")
    assert roofs.row(1) == row(1, 10.0, 5.0)
    assert roofs.row(3).flops_per_s == roofs.row(64).flops_per_s == 19.0
    assert (roofs.row(4).bytes_per_s, roofs.row(4).levels[0].capacity) == (8.0, 400.0)


@pytest.mark.parametrize("name", machine_names())
def test_a_machine_file_names_its_source_and_makes_sense(name: str) -> None:
    read = read_machine(name)
    row = read.rows[0]
    assert "white paper" in read.source
    assert 1e12 < row.flops_per_s < 1e15
    assert row.levels[-1].name == "DRAM" and math.isinf(row.levels[-1].capacity)
    assert 5 < row.ridge < 100
    rates = [level.bytes_per_s for level in row.levels]
    assert rates == sorted(rates, reverse=True)


def test_a_user_may_give_a_file_of_his_own(tmp_path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    row = read_machine(str(tmp_path / "mine.toml")).rows[0]
    assert [level.name for level in row.levels] == ["L2", "DRAM"]
    assert row.ridge == 10.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('source = "its data sheet"', "", "source is missing"),
        ("fp32 = 1e12", "fp32 = -1", "flops_per_s.fp32: Input should be greater than 0"),
        ("fp32 = 1e12", 'fp32 = "fast"', "flops_per_s.fp32: "),
        ("fp32 = 1e12", "fp16 = 1e12", "there is no peak for the precision 'fp32'.*allowed: 'fp16'"),
        ("fp32 = 1e12", "fp32 = nan", "flops_per_s.fp32: "),
        ("capacity_bytes = 1e6", "", "every .* but the last is a cache and needs capacity_bytes"),
        ("bytes_per_s = 1e11", "bytes_per_s = 1e11\ncapacity_bytes = 5", "has no capacity_bytes"),
        ('name = "L2"', 'name = "DRAM"', "the same name"),
        ('name = "mine"', 'name = "mine"\ncolour = "red"', "colour is not a field of a machine file"),
        ('name = "mine"', "name = mine", "is not TOML"),
    ],
)
def test_what_is_wrong_with_a_machine_file_is_one_sentence(tmp_path, old: str, new: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        read_machine(str(path))
    assert "\n" not in str(caught.value) and "wrong.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a10", "did you mean 'a100'"),
        ("none.toml", "there is no such file"),
        ("./", "cannot be read"),
        ("no\0.toml", "cannot be"),
    ],
)
def test_a_machine_that_is_not_there(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_machine(name)


@given(st.binary(max_size=200))
def test_any_file_is_a_machine_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_machine(str(path))

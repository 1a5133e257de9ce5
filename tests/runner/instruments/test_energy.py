"""Energy: counters that wrap, parts that must not be counted twice, and provenance."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from steplab.runner.instruments.energy import RaplMeter, energy, rapl_zones, unrolled

RANGE = 262_143_328_850


def zone(root: Path, name: str, kind: str, microjoules: int, span: int = RANGE) -> Path:
    """Lay out one RAPL counter."""
    folder = root / "sys/class/powercap" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{kind}\n")
    (folder / "max_energy_range_uj").write_text(f"{span}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    return folder / "energy_uj"


def test_packages_and_memory_are_summed_and_their_parts_left_out(tmp_path: Path) -> None:
    for name, kind in [
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0:0", "core"),
        ("intel-rapl:0:1", "dram"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:2", "psys"),
    ]:
        zone(tmp_path, name, kind, 0)
    assert [one.name for one in rapl_zones(tmp_path)] == ["package-0", "dram", "package-1"]


def test_joules_of_a_trial(tmp_path: Path) -> None:
    first = zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    second = zone(tmp_path, "intel-rapl:1", "package-1", 5_000_000)
    meter = RaplMeter(tmp_path)
    meter.begin()
    first.write_text("4_000_000".replace("_", ""))
    second.write_text("5500000")
    assert meter.end() == 3.5
    meter.begin()
    assert meter.end() == 0.0


def test_a_counter_that_wraps_several_times_is_followed(tmp_path: Path) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", 0, span=1000)
    meter = RaplMeter(tmp_path)
    meter.begin()
    used = 0
    for step in (700, 700, 999, 1):
        used += step
        counter.write_text(str(used % 1000))
        meter.look()
    assert meter.end() == used / 1e6


def test_a_counter_that_goes_away_leaves_no_figure(tmp_path: Path) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", 0)
    meter = RaplMeter(tmp_path)
    meter.begin()
    counter.unlink()
    assert meter.end() is None


def test_a_machine_without_counters_has_no_figure(tmp_path: Path) -> None:
    meter = RaplMeter(tmp_path)
    meter.begin()
    assert meter.end() is None


@given(st.integers(1, 10**12).flatmap(lambda span: st.tuples(st.just(span), *[st.integers(0, span - 1)] * 2)))
def test_unrolling_gives_what_was_added(values: tuple[int, int, int]) -> None:
    span, before, added = values
    assert unrolled(before, (before + added) % span, span) == added


def test_what_was_measured_goes_before_what_was_stated() -> None:
    assert energy(2.0, 3.0, 1.0, 9.0).provenance == "nvml"
    assert energy(None, 3.0, 1.0, 9.0).provenance == "rapl"
    assert (energy(None, None, 2.0, 9.0).joules, energy(None, None, 2.0, 9.0).provenance) == (18.0, "estimated")
    assert (energy(None, None, 2.0, None).joules, energy(None, None, 2.0, None).provenance) == (None, "none")

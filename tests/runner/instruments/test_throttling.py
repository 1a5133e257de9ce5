"""Throttling is read from the counters that Linux keeps; machines are laid out as folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplab.runner.instruments.throttling import Quota, ThrottleWatch, quota_files, read_quota


def lay(root: Path, files: dict[str, object]) -> None:
    """Write the files of a machine."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


V2 = "usage_usec 5\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}"
V1 = "nr_periods {}\nnr_throttled {}\nthrottled_time {}"


def test_both_versions_of_cgroups_are_read(tmp_path: Path) -> None:
    lay(tmp_path, {"two": V2.format(10, 4, 2_500_000), "one": V1.format(10, 4, 2_500_000_000), "none": "usage_usec 5"})
    assert read_quota(tmp_path / "two") == read_quota(tmp_path / "one") == Quota(10, 4, 2.5)
    assert read_quota(tmp_path / "none") is None
    assert read_quota(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("line", "files", "found"),
    [
        ("0::/", ["sys/fs/cgroup"], 1),
        ("0::/user/job", ["sys/fs/cgroup/user/job", "sys/fs/cgroup/user"], 2),
        ("4:cpu,cpuacct:/docker/abc", ["sys/fs/cgroup/cpu,cpuacct"], 1),
        ("1:cpu:/", ["sys/fs/cgroup/cpu"], 1),
        ("3:memory:/x", ["sys/fs/cgroup/memory/x"], 0),
    ],
)
def test_the_quota_is_found_where_the_process_is_and_above(
    tmp_path: Path, line: str, files: list[str], found: int
) -> None:
    lay(tmp_path, {"proc/self/cgroup": line} | {f"{file}/cpu.stat": V2.format(1, 0, 0) for file in files})
    assert len(quota_files(tmp_path)) == found


def test_a_quota_that_bit_during_the_trial_is_told(tmp_path: Path) -> None:
    lay(tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.stat": V2.format(100, 7, 1_000_000)})
    watch = ThrottleWatch(tmp_path)
    watch.begin()
    assert watch.end() == ""
    lay(tmp_path, {"sys/fs/cgroup/cpu.stat": V2.format(140, 19, 1_800_000)})
    assert watch.end() == "a CPU quota held the ranks back in 12 of 40 periods (0.8 s)"
    watch.begin()
    assert watch.end() == ""


def test_heat_is_told_by_its_counters(tmp_path: Path) -> None:
    place = "sys/devices/system/cpu/cpu{}/thermal_throttle/{}_throttle_count"
    lay(tmp_path, {place.format(0, "core"): 3, place.format(0, "package"): 9, place.format(1, "core"): 0})
    watch = ThrottleWatch(tmp_path)
    watch.begin()
    lay(tmp_path, {place.format(0, "core"): 5, place.format(0, "package"): 14})
    assert watch.end() == "heat throttled the CPU 5 times"


def clocked(root: Path, now: list[int], **further: int) -> None:
    for at, rate in enumerate(now):
        folder = f"sys/devices/system/cpu/cpu{at}/cpufreq"
        lay(root, {f"{folder}/scaling_cur_freq": rate} | {f"{folder}/{k}": v for k, v in further.items()})


@pytest.mark.parametrize(
    ("further", "rate", "said"),
    [
        ({"base_frequency": 2_400_000, "cpuinfo_max_freq": 3_600_000}, 1_200_000, "base rate is 2.40 GHz"),
        ({"base_frequency": 2_400_000, "cpuinfo_max_freq": 3_600_000}, 2_300_000, ""),
        ({"cpuinfo_max_freq": 3_600_000}, 1_200_000, "highest rate is 3.60 GHz"),
        ({"cpuinfo_max_freq": 3_600_000}, 2_300_000, ""),
    ],
)
def test_a_low_clock_rate_is_told_of_the_fastest_processor(
    tmp_path: Path, further: dict[str, int], rate: int, said: str
) -> None:
    clocked(tmp_path, [400_000, rate], **further)
    watch = ThrottleWatch(tmp_path)
    watch.begin()
    watch.look()
    assert watch.end() == ""  # one look is not enough
    watch.look()
    assert (said in (watch.end() or "")) if said else watch.end() == ""


def test_a_machine_that_shows_nothing_says_nothing(tmp_path: Path) -> None:
    watch = ThrottleWatch(tmp_path)
    watch.begin()
    watch.look()
    assert watch.end() is None
    assert not watch.periodic

"""What is seen around a trial, on the machine at hand and in real records."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steplab.runner.instruments.surroundings import NOTHING, Instruments, Watch
from steplab.store import records, tables
from steplab.store.paths import StudyFolder


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_our_own_work_is_not_that_of_others(tmp_path: Path) -> None:
    # One watch around the other: they differ by our own half second of CPU time, less the ticks in which it is counted,
    # and by what others do between the two beginnings and the two ends, which only adds to the difference.
    strangers = Watch(Instruments(tmp_path), {}, [])
    ours = Watch(Instruments(tmp_path), {}, [os.getpid()])
    burn(0.5)
    kept = ours.end().other_cpu_s or 0.0
    counted = strangers.end().other_cpu_s or 0.0
    assert counted - kept >= 0.4


def test_the_work_of_another_process_is(tmp_path: Path) -> None:
    watch = Watch(Instruments(tmp_path), {}, [os.getpid()])
    code = "import time\nwhile time.process_time() < 0.6: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (watch.end().other_cpu_s or 0.0) >= 0.5


def test_a_process_that_is_gone_does_not_matter(tmp_path: Path) -> None:
    assert Watch(Instruments(tmp_path), {0: 999_999_999}, [999_999_999]).end().gpus == {}


def test_nothing_is_claimed_of_a_virtual_clock() -> None:
    assert NOTHING.energy(10.0, 50.0).provenance == "none"
    assert (NOTHING.other_cpu_s, NOTHING.throttled) == (None, None)


def test_long_trials_are_looked_at_now_and_then(tmp_path: Path) -> None:
    folder = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq"
    folder.mkdir(parents=True)
    for name, rate in (("scaling_cur_freq", 900_000), ("base_frequency", 2_000_000)):
        (folder / name).write_text(f"{rate}\n")
    tools = Instruments(tmp_path)
    watch = Watch(tools, {}, [])
    deadline = time.monotonic() + 120
    while len(tools.throttling.rates) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert watch.end().throttled == "the CPU ran at 0.90 GHz, its base rate is 2.00 GHz"


def test_energy_is_estimated_only_when_the_study_states_the_watts(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    measure = "phases = false\nwatts_per_cpu = 20\n[data]\nsamples = 500"
    assert steplab("run", study_file(framework=["torch"], workers=[1], measure=measure), "--limit", 1).code == 0
    folder = tmp_path / "runs" / "rehearsal"
    (record,) = records.all_records(StudyFolder(folder))
    assert record.energy.provenance == "estimated"
    assert record.energy.joules == record.ranks[0].cpu_s * 20
    assert record.other_cpu_s is not None
    assert 0.0 <= tables.load(folder).trials.iloc[0]["other_cpu_share"] <= 1.0

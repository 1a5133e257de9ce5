"""Odd surroundings: outputs that are no files, records out of reach, claims of others, streams that nobody reads."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

STEPLAB = [sys.executable, "-m", "steplab"]
# Without root's right to read and write everything; for other users it changes nothing.
ORDINARY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def ordinary_run(study: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a study as a user who may not read and write everything."""
    command = [*ORDINARY, *STEPLAB, "run", str(study), "--out", "out"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def study(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> Path:
    """A study that has run into `out`."""
    path = study_file(batch_size=[1, 2])
    assert steplab("run", path, "--out", "out").code == 0
    return path


@pytest.mark.parametrize(
    "command",
    [("export", "out", "--to", "place.csv"), ("report", "out", "--out", "place.csv"),
     ("fit", "out", "--extrinsic", "batch_size", "--model", "linear", "--out", "place.csv")],
)  # fmt: skip
@pytest.mark.parametrize("link", [False, True])
def test_no_output_takes_the_place_of_what_is_no_file(
    study: Path, tmp_path: Path, steplab: Callable[..., Any], command: tuple[str, ...], link: bool
) -> None:
    """As `--out /dev/null` would; a FIFO stands for every device."""
    os.mkfifo(tmp_path / "fifo")
    if link:
        (tmp_path / "place.csv").symlink_to("fifo")
    else:
        (tmp_path / "fifo").rename(tmp_path / "place.csv")
    ran = steplab(*command)
    assert (ran.code, "is a FIFO, not a regular file" in ran.err) == (1, True), ran.err
    assert stat.S_ISFIFO((tmp_path / "place.csv").stat().st_mode)


def test_a_record_out_of_reach_is_not_put_aside(study: Path, tmp_path: Path) -> None:
    record = min((tmp_path / "out/records").iterdir())
    record.chmod(0)
    ran = ordinary_run(study, tmp_path)
    assert record.exists()
    assert not (tmp_path / "out/damaged").exists()
    assert f"left out: out/records/{record.name}: cannot be read (Permission denied)" in ran.stderr


def test_records_that_cannot_be_written_are_said_before_anything_runs(study: Path, tmp_path: Path) -> None:
    for record in (tmp_path / "out/records").iterdir():
        record.unlink()
    (tmp_path / "out/records").chmod(0o555)
    ran = ordinary_run(study, tmp_path)
    assert (ran.returncode, "cannot be written (Permission denied)" in ran.stderr) == (1, True)
    assert "waiting" not in ran.stderr
    assert "ending" not in ran.stderr


def test_a_record_that_another_laboratory_has_moved_is_no_matter(study: Path, tmp_path: Path) -> None:
    from steplab.store import records
    from steplab.store.paths import StudyFolder

    records.put_damaged_aside(StudyFolder(tmp_path / "out"), "0" * 16)


def test_who_is_waited_for_is_said(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    """A living process holds a trial; once the wait is said it ends, and the study goes on."""
    path = study_file()
    first = steplab("run", path, "--dry-run", "--json").json["plan"][0]["trial"]
    (tmp_path / "out/claims").mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"]) as holder:
        claim = {"host": socket.gethostname(), "pid": holder.pid, "since": psutil.Process(holder.pid).create_time()}
        (tmp_path / "out/claims" / first).write_text(json.dumps(claim | {"expires": time.time() + 600}))
        command = [*STEPLAB, "run", str(path), "--out", "out"]
        variables = {**os.environ, "COLUMNS": "200"}
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=variables) as run:
            assert run.stderr is not None
            told = next((line for line in run.stderr if "waiting for the trial" in line), "")
            holder.kill()
            holder.wait()
            run.stderr.read()
    assert f"waiting for the trial {first}: it is claimed by process {holder.pid} on " in told
    assert run.returncode == 0


def test_a_study_goes_on_when_nobody_reads_its_log(tmp_path: Path, study_file: Callable[..., Path]) -> None:
    path = study_file(strategy=["sync", "ps-sync"], batch_size=[1, 2, 3, 4])
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [*STEPLAB, "run", str(path), "--out", "out"]
        ran = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writing, check=False)
    finally:
        os.close(writing)
    assert ran.returncode == 0
    assert len(list((tmp_path / "out/records").iterdir())) == 16


def test_an_error_that_stdout_does_not_take_is_still_one_sentence(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*STEPLAB, "analyze", "nothere", "--json"]
        ran = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr.splitlines()[-1].startswith("steplab: nothere: ")) == (1, True)
    assert "Traceback" not in ran.stderr

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


NAMELESS = ["unshare", "--user", "--map-user=54321"]  # a user that no list knows, as in a container


def spoken(*command: object, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command with other variables, and no traceback."""
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "STEPLAB_HOME")} | variables
    ran = subprocess.run([*map(str, command)], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran


@pytest.mark.parametrize("command", ["status", "analyze", "diff out", "fit", "import csv t.csv --out", "data check"])
def test_a_folder_that_may_not_be_read_is_told(study: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "t.csv").write_text("batch_size,t_iter\n1,0.1\n2,0.2\n")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0)
    ran = spoken(*ORDINARY, *STEPLAB, *command.split(), locked / "inner.csv", folder=tmp_path, HOME=str(tmp_path))
    locked.chmod(0o700)
    assert ran.returncode == 1 and "Permission denied" in ran.stderr.splitlines()[-1], ran.stderr


@pytest.mark.parametrize("command", ["status", "analyze", "report", "cancel", "fit", "compare", "roofline"])
def test_a_name_that_is_too_long_is_told(tmp_path: Path, steplab: Callable[..., Any], command: str) -> None:
    ran = steplab(command, f"{'n' * 300}/x.csv")
    assert ran.code == 1 and len(ran.err.strip().splitlines()) == 1 and "n" * 300 in ran.err


def test_links_in_a_circle_are_told(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert (steplab("cancel", "loop").code, len(steplab("cancel", "loop").err.splitlines())) == (1, 1)


def test_a_user_without_a_home_can_look_at_a_study(study: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ran = spoken(*NAMELESS, *STEPLAB, "status", "out", folder=tmp_path)
    assert (ran.returncode, "4 ok" in ran.stdout) == (0, True), ran.stderr


def test_the_home_of_nobody_is_told(steplab: Callable[..., Any]) -> None:
    ran = steplab("data", "list", env={"STEPLAB_HOME": "~nobody-here/x"})
    assert (ran.code, ran.err) == (1, "steplab: ~nobody-here/x: no home directory is known for that user\n")


@pytest.mark.parametrize("columns", ["0", "²", "-5", "wide", "9" * 5000])
def test_a_screen_of_no_width_is_read_all_the_same(study: Path, steplab: Callable[..., Any], columns: str) -> None:
    ran = steplab("status", "out", env={"COLUMNS": columns})
    assert ran.code == 0 and "4 ok" in ran.out


def test_a_folder_in_the_place_of_an_output_is_named(study: Path, tmp_path: Path, steplab: Callable[..., Any]) -> None:
    (tmp_path / "place").mkdir()
    ran = steplab("fit", "out", "--extrinsic", "batch_size", "--model", "linear", "--out", tmp_path / "place")
    assert ran.code == 1 and f"{tmp_path / 'place'}: cannot be written (Is a directory)" in ran.err


@pytest.mark.parametrize("name", ["slurm", "choices"])
def test_a_file_in_the_place_of_a_folder_is_told(
    study: Path, tmp_path: Path, steplab: Callable[..., Any], name: str
) -> None:
    (tmp_path / "out" / name).write_text("")
    for command in ("status", "analyze", "cancel"):
        ran = steplab(command, "out")
        assert (ran.code, f"out/{name}: is not a folder; remove it" in ran.err) == (1, True), ran.err


def test_records_without_their_study_file_are_analysed(
    study: Path, tmp_path: Path, steplab: Callable[..., Any]
) -> None:
    (tmp_path / "out/study.toml").unlink()
    ran = steplab("analyze", "out")
    assert (ran.code, "init" in ran.err) == (0, False), ran.err


@pytest.mark.parametrize(
    "call",
    ["plan workers m.json --workers ²..³", f"plan workers m.json --workers 1..{'9' * 5000}",
     f"plan deadline m.json --samples -{'9' * 400} --by 1h", f"network x --ranks {'9' * 5000}",
     "export out --to mlflow:", "env check nope", "roofline nope", "serve out --allow-remote --host a..b"],
)  # fmt: skip
def test_absurd_values_get_one_sentence(study: Path, tmp_path: Path, steplab: Callable[..., Any], call: str) -> None:
    if "m.json" in call:
        table = "batch_size,workers,t_iter\n" + "\n".join(f"{b},{w},{b / w}" for b in (1, 2, 4) for w in (1, 2, 4))
        (tmp_path / "t.csv").write_text(table)
        assert steplab("fit", "t.csv", "--model", "linear", "--out", "m.json").code == 0
    ran = steplab(*call.split())
    assert ran.code in (1, 2, 3) and "RuntimeWarning" not in ran.err
    assert len(ran.err.splitlines()) <= 3


@pytest.mark.parametrize("note", ['{"name": "a", "framework": 5}', '{"framework": ["x"], "lock": []}', "[" * 100_000])
def test_a_damaged_environment_leaves_the_others_listed(tmp_path: Path, steplab: Callable[..., Any], note: str) -> None:
    place = tmp_path / "home/envs/damaged"
    place.mkdir(parents=True)
    (place / "steplab.json").write_text(note)
    ran = steplab("env", "list", "--json", env={"STEPLAB_HOME": str(tmp_path / "home")})
    rows = {row["name"]: row for row in json.loads(ran.out)["environments"]}
    assert "cannot be read; remove it" in str(rows["damaged"]) and "torch" in rows


def test_a_record_of_no_day_is_not_exported(study: Path, tmp_path: Path, steplab: Callable[..., Any]) -> None:
    for record in (tmp_path / "out/records").glob("*.json"):
        record.write_text(json.dumps(json.loads(record.read_text()) | {"started": "x"}))
    ran = steplab("export", "out", "--to", "tensorboard:tb")
    assert (ran.code, "out: cannot be exported" in ran.err) == (1, True), ran.err

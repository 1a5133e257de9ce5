"""Folders made by a stranger, through every command that takes one.

Nothing outside of the folder is read, changed or removed; a command does its work on what is left, or says in one
sentence why it cannot. No command waits for a FIFO or reads a device.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steplab.cli import command_files
from steplab.costs.roofs import Ceiling, Ceilings, Level
from steplab.runner.instruments import ceilings
from steplab.store import cache, records
from steplab.store.paths import StudyFolder

STEPLAB = Path(sys.executable).with_name("steplab")
SECRET = "leaked-from-outside"  # stands in every file outside of the folder
HANGS_S = 900  # only a net: a command that waits for ever must not stop the tests
STUDY = """
[study]
name = "stranger"
[factors]
framework = "synthetic"
batch_size = [8, 16, 32]
workers = [1, 2]
noise = 0.02
[design]
replicates = 2
order = "given"
[measure]
iterations = 8
warmup = 2
"""
# How a command is called with a stranger's folder; {out} is a place of the user's own.
CALLS: dict[str, list[str]] = {
    "analyze": ["analyze {folder} --json"],
    "compare": ["compare {folder} --models linear --json"],
    "cancel": ["cancel {folder} --json"],
    "diff": ["diff {folder} {folder} --json"],
    "export": ["export {folder} --to {out}/t.csv --json", "export {folder} --table trace --to {out}/t.json --json"],
    "fit": ["fit {folder} --model linear --json"],
    "import": ["import csv {out}/times.csv --out {folder} --json"],
    "init": ["init {folder}"],
    "penalty": ["penalty {folder} --json"],
    "plan": ["plan next {folder} --trials 1 --json"],
    "predict": ["predict {folder} --at batch_size=8 --json"],
    "report": ["report {folder} --models linear --json", "report {folder} --models linear --out {out}/r.html --json"],
    "roofline": ["roofline {folder} --json"],
    "run": ["run {out}/study.toml --out {folder} --dry-run --json", "run {out}/study.toml --out {folder} --json",
            "run {out}/study.toml --out {folder} --retry-failed --json"],
    "serve": ["serve {folder} --port 0 --json"],
    "status": ["status {folder} --json", "status {folder}"],
}  # fmt: skip
TAKES_NO_STUDY = {
    "data": "takes the folder of a data set",
    "doctor": "takes no folder",
    "env": "takes the names of environments",
    "inspect": "takes a network or an ONNX file",
    "net": "takes the name of a cluster in a box",
    "sources": "runs ready studies into folders that it makes",
    "network": "takes the name of a cluster in a box; its records are in a folder that it makes",
}
MAKES_A_FOLDER = ("import", "init")  # these want one that is not there yet
WANTS_A_FILE = ("predict",)
OUTSIDE_STARTS = ("run", "serve")  # these start processes or listen: they get a process of their own


def test_every_command_is_tried_or_declared() -> None:
    assert {*CALLS, *TAKES_NO_STUDY} == set(command_files())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study and its cache, as a stranger may have made them."""
    place = tmp_path_factory.mktemp("stranger")
    (place / "study.toml").write_text(STUDY)
    variables = {**os.environ, "STEPLAB_HOME": str(place / "home")}
    for words in (("run", "study.toml", "--out", "folder"), ("analyze", "folder")):
        subprocess.run([STEPLAB, *words], cwd=place, env=variables, capture_output=True, check=True, timeout=300)
    return place


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What belongs to somebody else: all that links of the folder may point to."""
    place = tmp_path / "outside"
    for name in ("Documents", "000-0123abcd", "0123456789abcdef"):
        (place / name).mkdir(parents=True)
        (place / name / "file").write_text(SECRET)
    (place / "file").write_text(SECRET)
    return place


@pytest.fixture
def folder(tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch) -> StudyFolder:
    """The stranger's folder, and the user's own home and files beside it."""
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "home"))
    shutil.copytree(finished / "home", tmp_path / "home")  # the worst case: the cache bears the user's own seal
    shutil.copytree(finished / "folder", tmp_path / "folder")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "study.toml").write_text(STUDY)
    (tmp_path / "out" / "times.csv").write_text("batch_size,t_iter\n1,0.5\n2,0.6\n")
    roofs = Ceilings("a machine", (Ceiling(1, 8e10, (Level("DRAM", 2e10),), 0.05, 0.02),), "measured", "NumPy", "now")
    monkeypatch.setattr(ceilings, "measure_here", lambda seconds, progress: roofs)
    return StudyFolder(tmp_path / "folder")


@pytest.fixture(autouse=True)
def net() -> Iterator[None]:
    """Ends a test that hangs."""

    def hung(*_: object) -> None:
        raise TimeoutError("the command hangs")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(HANGS_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def call(tmp_path: Path, in_process: Callable[..., Any], program: Callable[..., Any]) -> Callable[..., Any]:
    """Call a command on the stranger's folder."""

    def ran(line: str) -> Any:
        words = line.format(folder=tmp_path / "folder", out=tmp_path / "out").split()
        if words[0] == "serve":
            return _served(words)
        return (program if words[0] in OUTSIDE_STARTS else in_process)(*words)

    return ran


@pytest.fixture
def refused(tmp_path: Path, in_process: Callable[..., Any]) -> Callable[..., Any]:
    """Call a command that must refuse before it starts or listens: it needs no process of its own."""
    return lambda line: in_process(*line.format(folder=tmp_path / "folder", out=tmp_path / "out").split())


def _served(words: list[str]) -> Any:
    """A server's page, or how it refused."""
    with subprocess.Popen([STEPLAB, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = ""
        while not said.endswith("}\n") and (line := process.stdout.readline()):
            said += line
        if "url" in json.loads(said):
            process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=HANGS_S)
    assert "Traceback" not in problems
    return SimpleNamespace(code=process.returncode, out=said + rest, err=problems)


def tree(place: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything below a place: when it was changed, and what it holds."""
    return {
        str(path.relative_to(place)): (
            path.lstat().st_mtime_ns,
            str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else "",
        )
        for path in (place, *sorted(place.rglob("*")))
    }


def told(ran: Any, tmp_path: Path) -> str:
    """All that a command said or wrote."""
    written = [path.read_text(errors="replace") for path in (tmp_path / "out").rglob("*") if path.is_file()]
    report = tmp_path / "folder" / "report.html"
    return "\n".join([ran.out, ran.err, *written, report.read_text() if report.is_file() else ""])


def one_sentence(ran: Any) -> bool:
    """Whether an error is one line; a progress bar may have left an empty one."""
    return ran.err.strip().startswith("steplab: ") and "\n" not in ran.err.strip()


LINES = [line for lines in CALLS.values() for line in lines]


def put_link(place: Path, target: Path) -> None:
    """A link in the place of a file or folder, whose content lies outside from now on."""
    if place.is_dir():
        shutil.copytree(place, target, dirs_exist_ok=True)
        shutil.rmtree(place)
    elif place.exists():
        shutil.copy(place, target / place.name)
        place.unlink()
        target = target / place.name
    place.symlink_to(target)


@pytest.mark.parametrize("name", ["cache", "checkpoints", "records", "claims", "superseded", "study.toml"])
def test_a_folder_that_leads_elsewhere_is_refused_by_all(
    tmp_path: Path, folder: StudyFolder, outside: Path, refused: Callable[..., Any], name: str
) -> None:
    put_link(folder.root / name, outside)
    before = tree(outside)
    for line in [line for line in LINES if not line.startswith((*MAKES_A_FOLDER, *WANTS_A_FILE))]:
        ran = refused(line)
        assert ran.code == 1, line
        assert f"folder/{name}: is a symbolic link; steplab follows no links in a study's folder" in ran.err, line
        assert one_sentence(ran)
        assert tree(outside) == before, line


def test_a_link_at_a_trial_s_checkpoints_is_refused_by_all(
    folder: StudyFolder, outside: Path, refused: Callable[..., Any]
) -> None:
    folder.checkpoints.mkdir()
    folder.checkpoint(min(records.done(folder))).symlink_to(outside)
    before = tree(outside)
    for line in (*CALLS["run"], *CALLS["analyze"], *CALLS["status"]):
        ran = refused(line)
        assert ran.code == 1 and "is a symbolic link" in ran.err
    assert tree(outside) == before


@pytest.mark.parametrize("name", [*MAKES_A_FOLDER, *WANTS_A_FILE])
def test_commands_for_something_else_leave_it_as_it_is(
    folder: StudyFolder, call: Callable[..., Any], name: str
) -> None:
    before = tree(folder.root)
    for line in CALLS[name]:
        ran = call(line)
        assert ran.code == 1 and one_sentence(ran)
    assert tree(folder.root) == before


def spoil_records(folder: StudyFolder, outside: Path) -> list[str]:
    """Something else in the place of each of some records; the names of these."""
    spoilt = sorted(records.done(folder))[:7]
    link, zero, fifo, directory, empty, cut, foreign = map(folder.record, spoilt)
    document = json.loads(link.read_bytes())
    whole = {**document, "reason": SECRET, "config": document["config"] | {"network": SECRET}}
    (outside / "record.json").write_text(json.dumps(whole))
    content = cut.read_bytes()
    for path in map(folder.record, spoilt):
        path.unlink()
    link.symlink_to(outside / "record.json")
    zero.symlink_to("/dev/zero")
    os.mkfifo(fifo)
    directory.mkdir()
    empty.touch()
    cut.write_bytes(content[: len(content) // 2])
    good = folder.record(sorted(records.done(folder))[-1])
    shutil.copy(good, foreign)
    shutil.copy(good, folder.records / "Documents.json")
    (folder.checkpoints / "Documents").mkdir(parents=True)
    return spoilt


MAY_LACK = ("compare", "fit", "penalty", "plan")  # of what is left there may be too little to learn from


@pytest.mark.parametrize("line", [line for line in LINES if not line.startswith((*MAKES_A_FOLDER, *WANTS_A_FILE))])
def test_what_is_no_record_is_named_and_the_rest_is_used(
    tmp_path: Path, folder: StudyFolder, outside: Path, call: Callable[..., Any], line: str
) -> None:
    spoilt = spoil_records(folder, outside)
    before = tree(outside)
    ran = call(line)
    assert ran.code == 0 or (line.startswith(MAY_LACK) and ran.code == 1), ran.err
    assert tree(outside) == before
    assert (folder.checkpoints / "Documents").is_dir()
    assert SECRET not in told(ran, tmp_path)
    measured_again = line.startswith("run") and "--dry-run" not in line
    assert measured_again == folder.damaged.exists()
    if measured_again:
        assert (ran.json["ok"], ran.json["left"]) == (12, 0)
        assert all(trial in ran.err for trial in spoilt)
        assert len(list(folder.damaged.iterdir())) == len(spoilt)
    if line.startswith(("analyze", "status", "roofline")):
        assert all(f"{trial}.json: " in ran.err for trial in spoilt)
        assert "Documents.json: is not named by a trial's id" in ran.err
    if line == "status {folder} --json":
        assert (ran.json["ok"], ran.json["left"], len(ran.json["unreadable"])) == (5, 7, 8)


def spoil_cache(folder: StudyFolder, outside: Path) -> None:
    """A cache of links, FIFOs and rubbish, under the names of real ones."""
    (segment,) = folder.cache.iterdir()
    for number, harm in enumerate(("link", "fifo", "rubbish", "missing")):
        copy = segment.with_name(f"{segment.name[:-8]}{number:08x}")
        shutil.copytree(segment, copy)
        path = copy / ("trials.parquet" if number % 2 else cache.INDEX)
        path.unlink()
        if harm == "link":
            path.symlink_to(outside / "file")
        elif harm == "fifo":
            os.mkfifo(path)
        elif harm == "rubbish":
            path.write_bytes(b"PAR1" * 1000)
    shutil.rmtree(segment)
    segment.symlink_to(outside)
    (folder.cache / "000-0123abcd").symlink_to(outside)


@pytest.mark.parametrize("line", [line for line in LINES if not line.startswith((*MAKES_A_FOLDER, *WANTS_A_FILE))])
def test_a_spoilt_cache_changes_no_answer(
    tmp_path: Path, folder: StudyFolder, outside: Path, call: Callable[..., Any], line: str
) -> None:
    spoil_cache(folder, outside)
    before = tree(outside)
    ran = call(line)
    assert ran.code == 0, ran.err
    assert tree(outside) == before
    assert SECRET not in told(ran, tmp_path)
    if line == "analyze {folder} --json":
        assert (ran.json["trials"], ran.json["failed"]) == (12, 0)


@pytest.mark.parametrize("harm", ["fifo", "directory", "not text"])
@pytest.mark.parametrize("name", ["report", "run", "serve", "status"])  # the commands that read it
def test_a_study_file_that_is_none_is_one_sentence(
    folder: StudyFolder, refused: Callable[..., Any], name: str, harm: str
) -> None:
    folder.study.unlink()
    if harm == "fifo":
        os.mkfifo(folder.study)
    elif harm == "directory":
        folder.study.mkdir()
    else:
        folder.study.write_bytes(b"\xff\xfe")
    ran = refused(CALLS[name][0])
    assert ran.code == 1
    assert "folder/study.toml: is " in ran.err and one_sentence(ran)


def test_what_holds_claims_and_checkpoints_may_be_anything(folder: StudyFolder, call: Callable[..., Any]) -> None:
    folder.record(min(records.done(folder))).unlink()
    shutil.rmtree(folder.claims)
    os.mkfifo(folder.claims)
    os.mkfifo(folder.checkpoints)
    ran = call(CALLS["run"][1])
    assert (ran.code, ran.json["ok"], ran.json["left"]) == (0, 12, 0)

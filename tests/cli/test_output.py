"""What reaches a terminal, a pipe, a full disk: other people's text is only text, and nothing ends in a traceback."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from steplab.cli._output import console, progress_text, table
from steplab.store.foreign.imported import write_study
from steplab.store.foreign.times_csv import Wishes, read_times

STEPLAB = Path(sys.executable).with_name("steplab")
MARKUP = ("[bold]", "[/red]", ":fire:", "[link=http://x]y[/link]")
STEERING = "evil\x1b]0;title\x07\x1b[2J\u202eok\x9b31m"
SHOWN = "evil\\x1b]0;title\\x07\\x1b[2J\\u202eok\\x9b31m"


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Path]:
    """An imported study whose factor `label` has these levels."""

    def make(*levels: str) -> Path:
        rows = [f"{workers},{level},{0.1 * workers}" for workers in (1, 2) for level in levels]
        (tmp_path / "times.csv").write_text("\n".join(["workers,label,t_iter", *rows]) + "\n")
        write_study(read_times([tmp_path / "times.csv"], Wishes()), tmp_path / "study", "")
        return tmp_path / "study"

    return make


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a line of bash in which `steplab` is the command."""

    def run(line: str, **env: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "COLUMNS": "100", **env}
        text = f'steplab() {{ {shlex.quote(str(STEPLAB))} "$@"; }}; set -o pipefail; {line}'
        return subprocess.run(
            ["bash", "-c", text], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120,
            errors="replace", check=False,
        )  # fmt: skip

    return run


def test_levels_that_look_like_markup_are_shown_as_they_are(
    imported: Callable[..., Path], program: Callable[..., Any]
) -> None:
    ran = program("analyze", imported(*MARKUP))
    assert ran.code == 0
    assert all(level in ran.out for level in MARKUP)


def test_titles_and_headings_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(table(["[/red]"], [["[/x]" * 5]], title="[/title] :fire:"))
    said = capsys.readouterr().out
    assert all(text in said for text in ("[/red]", "[/x]", "[/title] :fire:"))


def test_a_progress_bar_shows_levels_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(
        progress_text("description", "dim"), progress_text("fields[failed]", "red"), console=console()
    ) as bar:
        bar.add_task("[/red] \x1b[2J :fire:", failed="[/x]")
    said = capsys.readouterr().out
    assert "[/red] \\x1b[2J :fire:" in said
    assert "[/x]" in said


def test_a_study_with_markup_in_its_name_and_levels_runs(
    program: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    ran = program("run", study_file(environment=["[/red]", ":fire:"]), "--out", "[/out]")
    assert "[/red]" in ran.err


def test_what_would_steer_a_terminal_is_shown_as_codes(
    imported: Callable[..., Path], program: Callable[..., Any]
) -> None:
    ran = program("analyze", imported(STEERING, "calm"))
    assert SHOWN in ran.out
    assert not set(STEERING) - set(SHOWN) & set(ran.out + ran.err)


def test_json_holds_the_levels_themselves_in_codes(imported: Callable[..., Path], program: Callable[..., Any]) -> None:
    ran = program("analyze", imported(STEERING, "calm"), "--json")
    assert not set(STEERING) - set(SHOWN) & set(ran.out)
    assert STEERING in {group["factors"]["label"] for group in ran.json["groups"]}


def _on_a_terminal(*arguments: str) -> str:
    """What a command writes to a terminal's stderr."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([STEPLAB, *arguments], stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                chunk = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            said += chunk
            if not chunk:
                break
        process.wait(180)
    os.close(ours)
    return said.decode()


def test_an_error_sentence_on_a_terminal_steers_nothing() -> None:
    said = _on_a_terminal("analyze", STEERING)
    assert SHOWN in said
    assert "\x1b" not in said


def test_a_usage_error_on_a_terminal_steers_nothing() -> None:
    said = _on_a_terminal("analyze", "study", "--" + STEERING)
    assert SHOWN in said
    assert "\x1b" not in said


@pytest.mark.parametrize("further", ["", "--json"])
def test_a_reader_that_has_seen_enough_is_no_error(
    imported: Callable[..., Path], shell: Callable[..., Any], further: str
) -> None:
    imported(*(f"level{number}" for number in range(60)))
    ran = shell(f"steplab analyze study --all {further} | head -1; exit ${{PIPESTATUS[0]}}")
    assert (ran.returncode, len(ran.stdout.splitlines())) == (0, 1)
    assert "rror" not in ran.stderr


def test_a_closed_stdout_is_no_error(imported: Callable[..., Path], shell: Callable[..., Any]) -> None:
    imported("a")
    ran = shell("steplab analyze study >&- <&-")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert shell("steplab analyze study >&- 2>&-").returncode == 0


@pytest.mark.parametrize("further", ["", "--json"])
def test_a_full_stdout_is_one_sentence(imported: Callable[..., Path], shell: Callable[..., Any], further: str) -> None:
    imported("a")
    ran = shell(f"steplab analyze study {further} >/dev/full")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == "steplab: stdout: cannot be written (No space left on device)"
    assert "Traceback" not in ran.stderr


def test_a_full_stderr_does_not_end_a_study(study_file: Callable[..., Path], shell: Callable[..., Any]) -> None:
    ran = shell(f"steplab run {study_file()} --out out 2>/dev/full")
    assert ran.returncode == 0
    assert "2 ok, 0 failed" in ran.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_signs_that_an_encoding_lacks_are_written_otherwise(
    imported: Callable[..., Path], shell: Callable[..., Any], encoding: str
) -> None:
    imported("größer", "中")
    ran = shell("steplab analyze study", PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert ran.returncode == 0
    assert "\\u4e2d" in ran.stdout
    document = shell("steplab analyze study --json", PYTHONIOENCODING=encoding)
    assert {group["factors"]["label"] for group in json.loads(document.stdout)["groups"]} == {"größer", "中"}


def test_the_plain_locale_is_enough(imported: Callable[..., Path], shell: Callable[..., Any]) -> None:
    imported("größer")
    for variables in ({"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        ran = shell("steplab analyze study", **variables)
        assert ran.returncode == 0, ran.stderr

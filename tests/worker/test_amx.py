"""Tiles that are announced and do not work are kept off; the trial is made in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from steplab_worker import amx


@pytest.mark.parametrize(
    ("announced", "works", "state"),
    [(False, True, "absent"), (True, True, "usable"), (True, False, "broken")],
)
def test_the_state_is_what_is_announced_and_what_works(
    monkeypatch: pytest.MonkeyPatch, announced: bool, works: bool, state: str
) -> None:
    monkeypatch.setattr(amx, "_announced", lambda: announced)
    monkeypatch.setattr(amx, "_works", lambda: works)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert amx.state() == state


def test_other_machines_and_forbidden_memory_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden() -> bool:
        raise PermissionError

    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert amx.state() == "absent"
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(amx, "_announced", forbidden)
    assert amx.state() == "absent"


@pytest.mark.parametrize(
    ("end", "works"),
    [
        ("pass", True),
        ("os.kill(os.getpid(), signal.SIGILL)", False),
        ("sys.exit(1)", False),
        ("time.sleep(1000)", False),
    ],
)
def test_tiles_work_if_the_probe_ends_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str, works: bool
) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(f"import os, signal, sys, time\n{end}\n")
    monkeypatch.setattr(amx, "__file__", str(probe))
    monkeypatch.setattr(amx, "PATIENCE_S", 1.0 if "sleep" in end else 120.0)
    assert amx._works() is works


def test_the_probe_ends_no_process_but_its_own() -> None:
    # Without tiles the instruction is illegal.
    probing = "from steplab_worker import amx; amx.state(); amx._works()"
    assert subprocess.run([sys.executable, "-c", probing], timeout=600, check=False).returncode == 0


def test_only_broken_tiles_are_kept_off_and_a_users_limit_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    assert amx.keep_off("broken") == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    assert amx.keep_off("usable") == amx.keep_off("absent") == {}
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert amx.keep_off("broken") == {}

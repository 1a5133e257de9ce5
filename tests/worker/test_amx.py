"""Tiles that are announced and do not work are kept off; the trial is made in a process of its own."""

from __future__ import annotations

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


def test_this_process_survives_the_probe_whatever_the_machine_is() -> None:
    assert amx.state() in ("absent", "usable", "broken")
    assert amx._works() in (True, False)  # without tiles the instruction is illegal, and only the probe ends by it


def test_only_broken_tiles_are_kept_off_and_a_users_limit_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    assert amx.keep_off("broken") == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    assert amx.keep_off("usable") == amx.keep_off("absent") == {}
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert amx.keep_off("broken") == {}

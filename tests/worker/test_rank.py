"""What a rank says of a failure fits a record."""

from __future__ import annotations

from steplab_worker.messages import Failed
from steplab_worker.rank import _failure


def _failed(error: BaseException) -> Failed:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - as the rank does
        return _failure(caught)


def test_a_giant_message_keeps_its_beginning_and_its_end() -> None:
    said = _failed(RuntimeError("begin " + "x" * 50_000_000 + " out of memory"))
    assert said.reason.startswith("RuntimeError: begin")
    assert said.reason.endswith("out of memory")
    assert said.status == "out-of-memory"
    assert len(said.reason) < 5000
    assert len(said.traceback) < 5000


def test_onnx_runtimes_lack_of_memory_is_told_by_its_words() -> None:
    said = _failed(
        RuntimeError("BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 5")
    )
    assert said.status == "out-of-memory"


def test_a_short_message_stays_as_it_is() -> None:
    assert _failed(ValueError("short")).reason == "ValueError: short"

"""The border to parsers: whatever is raised becomes one sentence that names the file."""

from __future__ import annotations

import struct
import tomllib
import zlib
from pathlib import Path

import pytest
from pydantic import BaseModel

from steplab.core.errors import InputError, StudyError, TableError
from steplab.core.parsing import parsing, read_text


class Strange(Exception):
    """What a library raises that documents nothing."""


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ValueError("no colon\nin line 3"), "t: is not a table: in line 3"),
        (Strange(), "t: is not a table: Strange"),
        (KeyError("name"), "t: is not a table: KeyError: 'name'"),
        (RecursionError("maximum depth"), "t: is not a table: it is nested too deeply"),
        (MemoryError(), "t: is not a table: it needs more memory than there is"),
        (OverflowError("too large"), "t: is not a table: too large"),
        (zlib.error("bad block"), "t: is not a table: bad block"),
        (struct.error("4 bytes"), "t: is not a table: 4 bytes"),
        (tomllib.TOMLDecodeError("key"), "t: is not a table: key"),
        (PermissionError(13, "Permission denied"), r"t: cannot be read \(Permission denied\)"),
        (FileNotFoundError(2, "No such file"), "t: there is no such file"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), r"t: is not a table: it is not UTF-8 text \(byte 0\)"),
    ],
)
def test_whatever_a_parser_raises_is_one_sentence(raised: Exception, told: str) -> None:
    with pytest.raises(TableError, match=rf"^{told}$"), parsing("is not a table", "t", TableError):
        raise raised


def test_long_words_of_a_parser_are_cut() -> None:
    with pytest.raises(InputError) as caught, parsing("is odd", "t"):
        raise ValueError("x" * 50_000_000)
    assert len(str(caught.value)) < 300


def test_a_sentence_of_ours_stays_and_gets_its_kind() -> None:
    with pytest.raises(StudyError, match=r"^f: is a FIFO; wait$"), parsing("is odd", "t", StudyError):
        raise InputError("is a FIFO", where="f", hint="wait")
    with pytest.raises(TableError, match=r"^rows$"), parsing("is odd", "t", StudyError):
        raise TableError("rows")


def test_an_interrupt_passes() -> None:
    with pytest.raises(KeyboardInterrupt), parsing("is odd", "t"):
        raise KeyboardInterrupt


def test_text_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"ab\xff")
    with pytest.raises(TableError, match=r"is not UTF-8 text \(byte 2\)"):
        read_text(tmp_path / "t", 100, TableError)
    with pytest.raises(TableError, match="is too large"):
        read_text(tmp_path / "t", 2, TableError)


class Kept(BaseModel):
    numbers: list[int]


def test_of_a_document_that_does_not_fit_the_first_fault_is_told() -> None:
    told = r"t: is not a batch: numbers\.1: Input should be a valid integer"
    with pytest.raises(InputError, match=told), parsing("is not a batch", "t"):
        Kept.model_validate({"numbers": [1, "x", "y"]})

"""Reads a large JSON trace piece by piece, plain or gzipped, so that its size in memory is one piece's."""

from __future__ import annotations

import codecs
import gzip
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from steplab.core.errors import InputError
from steplab.core.files import open_regular
from steplab.core.parsing import parsing

CHUNK = 1 << 20
MOST_BYTES = 16 << 30  # unpacked; a trace of that size is a mistake or an attack
SMALL, PACKED = 32 << 20, 60  # gzip makes a trace 10 to 30 times as small; beyond this it is a bomb
FEWEST_BYTES, MANY = 32, 100_000  # of an event on average, once there are many: shorter ones tell nothing
MOST_PIECE = 64 << 20  # characters of one event
BLANK = re.compile(r"[ \t\r\n]*")
ENDS = frozenset(" \t\r\n,:]}")


def pieces(path: Path, listed: str) -> Iterator[tuple[str, Any]]:
    """The fields of the JSON object in a file; of the field `listed`, a list, each element by itself.

    A file that is only a list counts as that field. Anything else than JSON becomes one sentence.
    """
    with parsing("cannot be read", str(path)), open_regular(path) as file:
        packed = file.read(2) == b"\x1f\x8b"
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if not packed:
            yield from _Reader(file, path, MOST_BYTES).document(listed)
            return
        with parsing("is a broken gzip file", str(path)):
            source = cast(IO[bytes], gzip.GzipFile(fileobj=file))
            yield from _Reader(source, path, min(MOST_BYTES, SMALL + PACKED * size)).document(listed)


class _Reader:
    """A window that moves over the text; `at` is the next character to read."""

    def __init__(self, source: IO[bytes], path: Path, most: int) -> None:
        self.source, self.path, self.most = source, path, most
        self.decode = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.scan = json.JSONDecoder(parse_constant=lambda _: None).raw_decode
        self.text, self.at, self.read, self.over = "", 0, 0, False

    def document(self, listed: str) -> Iterator[tuple[str, Any]]:
        opening = self.next_sign()
        if opening == "[":
            yield from ((listed, element) for element in self.elements())
        elif opening == "{":
            yield from self.fields(listed)
        else:
            raise self.wrong()

    def fields(self, listed: str) -> Iterator[tuple[str, Any]]:
        if self.peek() == "}":
            return
        while True:
            name = self.value()
            if not isinstance(name, str) or self.next_sign() != ":":
                raise self.wrong()
            if name == listed and self.peek() == "[":
                self.next_sign()
                yield from ((listed, element) for element in self.elements())
            else:
                yield name, self.value()
            if self.ends("}"):
                return

    def elements(self) -> Iterator[Any]:
        if self.peek() == "]":
            self.at += 1
            return
        for number in itertools.count(1):
            yield self.value()
            if self.ends("]"):
                return
            if number % MANY == 0 and self.passed() < FEWEST_BYTES * number:
                raise InputError("its events are empty", where=str(self.path))

    def ends(self, closing: str) -> bool:
        sign = self.next_sign()
        if sign not in (",", closing):
            raise self.wrong()
        return sign == closing

    def value(self) -> Any:
        """The next JSON value; more is read until it is whole."""
        self.peek()
        while True:
            try:
                value, end = self.scan(self.text, self.at)
            except (ValueError, RecursionError):
                end = -1
            # A number may go on beyond the window, or look whole at its point: what follows must end it.
            if end >= 0 and (self.over or self.text[end : end + 1] in ENDS):
                self.at = end
                return value
            if len(self.text) - self.at > MOST_PIECE or not self.more():
                raise self.wrong()

    def peek(self) -> str:
        """The next sign that is not blank; empty at the end."""
        while True:
            blank = BLANK.match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def next_sign(self) -> str:
        sign = self.peek()
        self.at += 1
        return sign

    def more(self) -> bool:
        """Read on, doubling the window while one value fills it, so that a long one is not scanned too often."""
        if self.over:
            return False
        content = self.source.read(max(CHUNK, len(self.text) - self.at))
        self.read += len(content)
        if self.read > self.most:
            what = f"holds more than {self.most >> 20} MiB"
            raise InputError(what, where=str(self.path), hint="profile fewer steps, or unpack it first")
        self.over = not content
        self.text = self.text[self.at :] + self.decode.decode(content, final=self.over)
        self.at = 0
        return True

    def passed(self) -> int:
        """About how many bytes lie behind."""
        return max(self.read - len(self.text) + self.at, 0)

    def wrong(self) -> InputError:
        where = f"{self.path}, after {self.passed()} bytes"
        return InputError("is not valid JSON", where=where, hint="give a trace that torch.profiler wrote")

"""Texts of one's own as token files: every byte is a token, the last tenth is for validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from steplab.core import atomic
from steplab.core.errors import InputError, StoreError
from steplab.core.files import read_regular
from steplab_worker.data.tokens import FILES, TOKEN

NAME = "bytes"  # the data set that needs no tokeniser
VALIDATION = 0.1
LEAST, MOST = 20, 4 << 30  # bytes: a sample takes two at least; the most of one file


def make_text(folder: Path, paths: Sequence[Path]) -> None:
    """Write the bytes of text files, and of all text files in folders, into a new folder as a data set `bytes`."""
    text = "\n".join(content for path in paths for content in _contents(path)).encode()
    if len(text) < LEAST:
        raise InputError(
            f"there are {len(text)} bytes of text, and a data set takes {LEAST} at least", where=str(paths[0])
        )
    tokens = np.frombuffer(text, dtype=np.uint8).astype(TOKEN)
    border = len(tokens) - int(VALIDATION * len(tokens))
    try:
        with atomic.folder(folder) as place:
            for split, part in (("train", tokens[:border]), ("test", tokens[border:])):
                (place / FILES[split]).write_bytes(part.tobytes())
            place.rename(folder)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror})") from None


def _contents(path: Path) -> Iterator[str]:
    """The text of a file, or those of a folder in the order of their names; what is no text there is passed over."""
    if not path.is_dir():
        text = _text(path)
        if text is None:
            raise InputError("is no text in UTF-8", where=str(path))
        yield text
        return
    for file in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        text = None if hidden or not file.is_file() else _text(file)
        if text is not None:
            yield text


def _text(file: Path) -> str | None:
    try:
        content = read_regular(file, MOST)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=str(file)) from None
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None

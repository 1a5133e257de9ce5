"""Stdout and stderr as the command line needs them: closed, full, broken off, in any encoding, never a traceback.

What is written is harmless to a terminal: Rich's text is made so by `_output.console`, and its own colours pass
through `Styled`; everything else passes `Stream.write`.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
import unicodedata
from typing import Any

from steplab.cli._visible import escaped, visible
from steplab.core.errors import StoreError

LOSSY = "steplab-lossy"  # how Python names `_without` as a way to encode
# What stands for a sign that an encoding lacks; others lose their accents, or are shown as a code.
WRITTEN_OTHERWISE = {
    **dict.fromkeys("–—−‐‑", "-"), **dict.fromkeys("µμ", "u"), "…": "...", "×": "x", "·": "*", "²": "2", "≤": "<=",
    "≥": ">=", "≠": "!=", "≈": "~", "±": "+/-", "→": "->", "∞": "inf", "λ": "lambda", "Σ": "sum", "β": "beta",
    "γ": "gamma", "ρ": "rho", "σ": "sigma", "‘": "'", "’": "'", "“": '"', "”": '"',
    **{bar: str(height) for height, bar in enumerate("▁▂▃▄▅▆▇█", start=1)},
}  # fmt: skip


def guard() -> None:
    """Put these streams in the place of Python's own; what a caller has put there stays."""
    codecs.register_error(LOSSY, _without)
    _open_closed()
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = Stream(sys.stdout)
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = Logs(sys.stderr)


def _open_closed() -> None:
    """Give closed standard streams (`>&-`) somewhere to go: the next file opened would take their place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - it stays open


def _without(error: UnicodeError) -> tuple[str, int]:
    """The signs that an encoding lacks, written otherwise."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_plainer(sign) for sign in error.object[error.start : error.end]), error.end


def _plainer(sign: str) -> str:
    r"""A sign in ASCII.

    >>> [_plainer(sign) for sign in "…é中"]
    ['...', 'e', '\\u4e2d']
    """
    bare = "".join(part for part in unicodedata.normalize("NFKD", sign) if part.isascii())
    return WRITTEN_OTHERWISE.get(sign) or bare or escaped(sign)


class Stream(io.TextIOWrapper):
    """Stdout: what cannot be written ends the command with a sentence, or quietly if nobody reads on."""

    def __init__(self, old: io.TextIOWrapper) -> None:
        encoding, lines = old.encoding, old.line_buffering
        super().__init__(old.detach(), encoding, LOSSY, line_buffering=lines)

    def write(self, text: str) -> int:
        """Write text, control characters made visible."""
        return self.write_styled(visible(text))

    def write_styled(self, text: str) -> int:
        """Write text as it is."""
        try:
            return super().write(text)
        except OSError as error:
            self._lost(error)
        return len(text)

    def flush(self) -> None:
        """Write what is still held back."""
        try:
            super().flush()
        except OSError as error:
            self._lost(error)

    def _lost(self, error: OSError) -> None:
        """From here on nothing goes out, so that Python finds nothing to complain of at its end."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        self._tell(error)

    def _tell(self, error: OSError) -> None:
        if error.errno == errno.EPIPE:
            raise SystemExit(0)  # `steplab analyze DIR | head -1` has seen enough
        raise StoreError(f"stdout: cannot be written ({error.strerror})")


class Logs(Stream):
    """Stderr: that nobody reads it, or a full disk behind it, is no reason to end a study that is being measured."""

    def _tell(self, error: OSError) -> None:
        pass


class Styled:
    """A stream for Rich, whose escape sequences are its own."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text as it is."""
        return self._stream.write_styled(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

"""The border to parsers: whatever one raises at somebody's file becomes one sentence that names the file.

json, tomllib, pyarrow, pandas, protobuf, nibabel, zlib and the like raise what they please at damaged files, beyond
what they document. A reader therefore lists no exceptions; it puts what parses under `parsing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steplab.core.errors import InputError, SteplabError
from steplab.core.files import read_regular

LONGEST = 200  # characters of a parser's own words


@contextmanager
def parsing(what: str, where: str, kind: type[InputError] = InputError, hint: str = "") -> Iterator[None]:
    """Say `what` is wrong `where`, with the parser's own words, if what is done inside fails.

    >>> with parsing("is not JSON", "times.json"):
    ...     raise ValueError("no colon in line 3")
    Traceback (most recent call last):
    ...
    steplab.core.errors.InputError: times.json: is not JSON: no colon in line 3
    """
    try:
        yield
    except SteplabError as error:
        if type(error) is not InputError or kind is InputError:
            raise
        raise kind(error.what, where=error.where, hint=error.hint) from None
    except Exception as error:
        raise kind(_sentence(what, error), where=where, hint=hint) from error


def read_text(path: Path, limit: int, kind: type[InputError] = InputError) -> str:
    """The text of a regular file of at most `limit` bytes."""
    with parsing("cannot be read", str(path), kind):
        return read_regular(path, limit).decode()


def _words(error: Exception) -> str:
    """A parser's own words; of the many lines of pydantic's, what is wrong first and the field it is in."""
    if not (type(error).__name__ == "ValidationError" and hasattr(error, "errors")):
        return str(error)
    wrong = error.errors(include_url=False, include_input=False)[0]
    field, what = ".".join(map(str, wrong["loc"])), wrong["msg"].removeprefix("Value error, ")
    return f"{field}: {what}" if field else str(what)


def _sentence(what: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read ({error.strerror})"
    if isinstance(error, UnicodeDecodeError):
        return f"{what}: it is not UTF-8 text (byte {error.start})"
    if isinstance(error, MemoryError):
        return f"{what}: it needs more memory than there is"
    if isinstance(error, RecursionError):
        return f"{what}: it is nested too deeply"
    lines = [line.strip() for line in _words(error).splitlines() if line.strip()]
    reason = lines[-1] if lines else type(error).__name__
    if isinstance(error, LookupError | AttributeError) and lines:  # alone, the name that is missing tells nothing
        reason = f"{type(error).__name__}: {reason}"
    return f"{what}: {reason if len(reason) <= LONGEST else reason[: LONGEST - 1] + '…'}"

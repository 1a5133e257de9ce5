"""Damages files in many ways: bytes, words, and values inside of JSON documents."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

WORDS = (
    b"1e999", b"-1", b"NaN", b"inf", b"0", b"9" * 400, b"1" + b"0" * 30, b"\x00", b"\xff\xfe", b"\xef\xbb\xbf",
    b"[" * 3000, b'{"a":' * 2000, b"'" * 9, b'"', b",,,,", b"\r\n", b"\t", b";", b"true", b"null", b"..", b"/dev/zero",
    b"=1+1", b"\x1b[2J", "\u202e中".encode(), b"x" * 70_000, b"2147483648",
    b"18446744073709551616", b"-9223372036854775809",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**40, 1e308, -1e308, 5e-324, 1e-300, "", "x", "1",
    "é\x00\x1b[2J", "x" * 10_000, [], {}, [[]], [None], {"": None}, [1.0] * 3,
    "inf", "nan", "sync", "accumulate:0", -0.0, 0.5,
)  # fmt: skip


def mutated(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A content damaged in one to six places, in a way that suits what it is."""
    if content[:2] == b"\x1f\x8b" and rng.random() < 0.6:
        return gzip.compress(mutated(gzip.decompress(content), others, rng), 1)
    document = _document(content) if rng.random() < 0.7 else None
    if document is not None:
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            document = _changed(document, rng)
        return json.dumps(document).encode("utf-8", "surrogatepass")
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        content = rng.choice(DAMAGES)(content, others, rng)
    return content


def _document(content: bytes) -> Any:
    """The JSON document, if it is one."""
    if content[:1] not in b"{[":
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key in node if isinstance(node, dict) else range(min(len(node), 50)) if isinstance(node, list) else ():
        yield from _places(node[key], (*path, key))


def _changed(document: Any, rng: random.Random) -> Any:
    """The document with one value replaced, removed, doubled, moved or buried."""
    places = [path for path in _places(document) if path]
    if not places:
        return rng.choice(ODD)
    path, source = rng.choice(places), rng.choice(places)
    parent, key = _at(document, path[:-1]), path[-1]
    way = rng.random()
    if way < 0.55:
        parent[key] = copy.deepcopy(rng.choice(ODD))
    elif way < 0.7:
        del parent[key]
    elif way < 0.8:
        parent[key] = copy.deepcopy(_at(document, source))
    elif way < 0.9 and isinstance(parent[key], list | str):
        parent[key] = parent[key] * rng.choice((2, 3, 50)) if len(parent[key]) < 1000 else parent[key][:1]
    elif isinstance(parent, dict):
        parent[rng.choice(("", "x", "=1", "[/red]", "\x1b", str(key) + " "))] = parent.pop(key)
    else:
        parent[key] = [parent[key]]
    return document


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


Damage = Callable[[bytes, list[bytes], random.Random], bytes]


def _spot(content: bytes, rng: random.Random) -> int:
    """A place; half of the time near an end, where the structure of binary files stands."""
    near = rng.randrange(min(len(content), 400) + 1)
    return rng.choice((near, len(content) - near, rng.randrange(len(content) + 1), rng.randrange(len(content) + 1)))


def _flip(content: bytes, _: list[bytes], rng: random.Random) -> bytes:
    made = bytearray(content or b"\x00")
    for _ in range(rng.choice((1, 2, 8))):
        made[min(_spot(content, rng), len(made) - 1)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(made)


def _cut(content: bytes, _: list[bytes], rng: random.Random) -> bytes:
    return content[: _spot(content, rng)]


def _remove(content: bytes, _: list[bytes], rng: random.Random) -> bytes:
    at = _spot(content, rng)
    return content[:at] + content[at + rng.choice((1, 2, 4, 30, 500)) :]


def _insert(content: bytes, _: list[bytes], rng: random.Random) -> bytes:
    at = _spot(content, rng)
    return content[:at] + rng.choice(WORDS) + content[at:]


def _repeat(content: bytes, _: list[bytes], rng: random.Random) -> bytes:
    at, length = _spot(content, rng), rng.choice((1, 8, 60, 1000))
    return content[:at] + content[at : at + length] * rng.choice((2, 10, 200)) + content[at + length :]


def _splice(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    other = rng.choice(others)
    return content[: _spot(content, rng)] + other[_spot(other, rng) :]


def _word(content: bytes, _: list[bytes], rng: random.Random) -> bytes:
    """One word of a text replaced by another of it, or by an odd one."""
    words = content.split(b" " if b" " in content[:200] else b",")
    words[rng.randrange(len(words))] = rng.choice((rng.choice(words), rng.choice(WORDS)))
    return (b" " if b" " in content[:200] else b",").join(words)


DAMAGES: tuple[Damage, ...] = (_flip, _flip, _cut, _remove, _insert, _insert, _repeat, _splice, _word, _word)

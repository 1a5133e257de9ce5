"""Texts of options, read: lists with commas, `name=value` pairs, shapes."""

from __future__ import annotations

from collections.abc import Sequence

from steplab.core.errors import InputError
from steplab.core.trial import Level, is_plain_level


def listed(text: str) -> tuple[str, ...]:
    """The names in a list with commas.

    >>> listed("linear, hybrid,")
    ('linear', 'hybrid')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def pairs(parts: Sequence[str], option: str, hint: str) -> dict[str, str]:
    """`name=value` texts as names and values.

    >>> pairs(["filters=8"], "--set", "")
    {'filters': '8'}
    """
    read = {}
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value:
            raise InputError(f"{part.strip()!r} is not NAME=VALUE", where=option, hint=hint)
        read[name] = value
    return read


def levels(text: str, option: str) -> dict[str, Level]:
    """`a=1,b=x` as names and levels.

    >>> levels("batch_size=64,network=lenet5", "--set")
    {'batch_size': 64, 'network': 'lenet5'}
    """
    return {name: level(value) for name, value in pairs(listed(text), option, "write a=1,b=2").items()}


def level(text: str) -> Level:
    """A number where the text is one."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if is_plain_level(value):
            return value
    return text


def shape(text: str) -> tuple[int, ...] | None:
    """The shape of a sample, `3x224x224`; none if nothing is given."""
    if not text:
        return None
    parts = text.lower().split("x")
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 10 and int(part) for part in parts):
        raise InputError(f"{text!r} is not a shape", where="--input", hint="write it like 3x224x224")
    return tuple(map(int, parts))

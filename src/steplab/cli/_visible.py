"""Other people's text made harmless: what would steer a terminal is shown as a code."""

from __future__ import annotations

import re

# Control characters but tab and newline, signs that turn the direction of writing, and halves of signs, of which the
# name of a file has some that is not UTF-8.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""The text with all that would steer a terminal written as codes.

    >>> print(visible("red: \x1b[31m, a bell: \x07"))
    red: \x1b[31m, a bell: \x07
    """
    return STEERING.sub(lambda match: escaped(match[0]), text)


def escaped(sign: str) -> str:
    """A sign as its code."""
    return f"\\x{ord(sign):02x}" if ord(sign) < 256 else ascii(sign)[1:-1]

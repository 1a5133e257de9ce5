"""Text that a person wrote, made fit for charts, pages and notebooks: one line, not too long, no markup."""

from __future__ import annotations

import unicodedata

LONGEST = 60
RIGHT_TO_LEFT = ("R", "AL")
ISOLATE, END_ISOLATE = "\u2068", "\u2069"


def plain(value: object, longest: int = LONGEST) -> str:
    r"""A name as a chart may show it: one line, not too long, with nothing that Plotly would take for markup.

    >>> plain("<b>a</b>\nb"), plain("x" * 9, 5)
    ('&lt;b&gt;a&lt;/b&gt; b', 'xxxx…')
    """
    text = "".join(_letter(letter) for letter in str(value))
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    mixed = any(unicodedata.bidirectional(letter) in RIGHT_TO_LEFT for letter in text)
    return f"{ISOLATE}{escaped}{END_ISOLATE}" if mixed else escaped


def _letter(letter: str) -> str:
    """Control characters become blanks; those that turn the direction of what follows are left out."""
    kind = unicodedata.category(letter)
    if kind == "Cf" and letter != "\u200d":  # the joiner belongs to emoji
        return ""
    return " " if kind in ("Cc", "Zl", "Zp", "Cs") else letter

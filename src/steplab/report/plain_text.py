"""Text that a person wrote, made fit for charts and pages; and sentences with the section that proves them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from steplab.analysis.sentences import Sentence

LONGEST = 60
RIGHT_TO_LEFT = ("R", "AL")
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
# What other modules call their evidence, and the section of the page that shows it.
SECTIONS = {"configurations": "step-time", "scaling": "speed-up", "frameworks": "factors"}


@dataclass(frozen=True)
class Said:
    """A sentence of the answer and the section of the page that holds its evidence ("" for none)."""

    text: str
    evidence: str = ""


def said(sentence: Sentence) -> Said:
    """A finding's sentence with the page's own name of the section that proves it."""
    return Said(sentence.text, SECTIONS.get(sentence.evidence, sentence.evidence))


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

"""Text that a person wrote, made fit for charts and pages; and sentences with the section that proves them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

LONGEST = 60
RIGHT_TO_LEFT = ("R", "AL")
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
# What other modules call their evidence, and the section of the page that shows it.
SECTIONS = {
    "fastest": "step-time", "throughput": "step-time", "groups": "step-time", "where": "phases", "shares": "phases",
    "scaling": "speed-up", "speedup": "speed-up", "efficiency": "speed-up", "why": "communication",
    "exposed": "communication", "lif": "imbalance", "effect": "effects", "trust": "noise", "doubt": "noise",
    "frameworks": "step-time", "models": "predicted", "forecast": "forecast",
}  # fmt: skip


@dataclass(frozen=True)
class Said:
    """A sentence of the answer and the section of the page that holds its evidence ("" for none)."""

    text: str
    evidence: str = ""


def said(sentence: object) -> Said:
    """A finding's sentence, whether it is plain text or an object with `text` and `evidence`.

    >>> said("Replicates differ by 3 %.").evidence
    'noise'
    """
    text = str(getattr(sentence, "text", sentence))
    evidence = str(getattr(sentence, "evidence", "") or "")
    return Said(text, SECTIONS.get(evidence, evidence) or _guess(text))


def _guess(text: str) -> str:
    """Where a plain sentence is shown, by what it speaks of."""
    marks = (
        ("throughput", "step-time"), ("of a step", "phases"), ("Phases", "phases"), ("efficiency", "speed-up"),
        ("effect", "effects"), ("eplicate", "noise"), ("trust", "noise"),
    )  # fmt: skip
    return next((section for mark, section in marks if mark in text), "")


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

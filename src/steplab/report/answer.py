"""The sentences of a report's answer, each with the section that proves it."""

from __future__ import annotations

from dataclasses import dataclass

from steplab.analysis.sentences import Sentence

PRECISION = "table-precision"
# What other modules call their evidence, and the section of the page that shows it.
SECTIONS = {"configurations": "step-time", "scaling": "speed-up", "accuracy": "time-to-accuracy"}
SECTIONS |= {"precision": PRECISION}


@dataclass(frozen=True)
class AnswerSentence:
    """A sentence of the answer and the section of the page that holds its evidence ("" for none)."""

    text: str
    evidence: str = ""


def on_page(sentence: Sentence) -> AnswerSentence:
    """A finding's sentence with the page's own name of the section that proves it."""
    return AnswerSentence(sentence.text, SECTIONS.get(sentence.evidence, sentence.evidence))

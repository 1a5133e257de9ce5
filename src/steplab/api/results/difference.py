"""What changed in time between two studies, before and after an upgrade."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from steplab.analysis.difference import Change, Difference, Differs, Side, difference
from steplab.api import display
from steplab.api.results.results import Results, open
from steplab.core.errors import InputError
from steplab.core.units import ratio_span, seconds

__all__ = ["Change", "Differs", "StudyDifference", "cells", "diff"]
COLUMNS = ("before", "after", "ratio", "95 % of all", "verdict")
SHOWN = 20  # configurations in a notebook


@dataclass(frozen=True, repr=False)
class StudyDifference:
    """What became faster or slower between two studies: `sentences`, `changes` as a table, `difference` as objects."""

    before: Path
    after: Path
    allowed: float | None  # the slow-down that is still fine, 0.05 for 5 %
    difference: Difference

    @property
    def too_slow(self) -> bool:
        """Whether anything is beyond doubt slower than is allowed."""
        return self.difference.too_slow

    @property
    def changes(self) -> pd.DataFrame:
        """One row for each configuration that both studies have, the largest slow-down first; times in seconds."""
        flat = [{**(change.factors or {}), **_numbers(change)} for change in self.difference.changes]
        return pd.DataFrame(flat)

    @property
    def sentences(self) -> list[str]:
        """The answer first: the overall change, what is sure, what only one of them has, what else differs."""
        difference = self.difference
        if difference.overall is None:
            return ["The two studies have no measured configuration in common.", *_alone(difference)]
        told = [_overall(difference), _counted(difference), *_alone(difference)]
        if self.allowed is not None:
            told.append(_verdict(difference, self.allowed))
        return told

    def document(self) -> dict[str, Any]:
        """What `steplab diff --json` prints."""
        difference = self.difference
        return {
            "before": str(self.before),
            "after": str(self.after),
            "overall": None if difference.overall is None else _numbers(difference.overall),
            "rows": [{"factors": change.factors, **_numbers(change)} for change in difference.changes],
            "only_before": list(difference.only_before),
            "only_after": list(difference.only_after),
            "surroundings": [asdict(change) for change in difference.surroundings],
            "fail_above": self.allowed,
            "too_slow": difference.too_slow,
            "sentences": self.sentences,
        }

    def __repr__(self) -> str:
        return f"<StudyDifference {self.before} → {self.after}: {len(self.difference.changes)} configurations>"

    def _repr_html_(self) -> str:
        rows = [[label(change, self.difference.varied), *cells(change)] for change in self.difference.changes]
        return display.block(
            *map(display.sentence, self.sentences),
            display.table(("configuration", *COLUMNS), rows[:SHOWN]),
            display.rest(len(rows) - SHOWN),
        )


def diff(before: Results | Path | str, after: Results | Path | str, fail_above: float | None = None) -> StudyDifference:
    """Compare the step times of two studies, configuration by configuration.

    Args:
        before: A study (`steplab.open`) or its folder.
        after: The study to compare with it.
        fail_above: The slow-down that is still fine, 0.05 for 5 %: `too_slow` tells whether one beyond it is sure.
    """
    if fail_above is not None and not 0 <= fail_above < math.inf:
        raise InputError(f"a slow-down of {fail_above} cannot be allowed", hint="allowed: 0 or more, 0.05 is 5 %")
    first, second = (study if isinstance(study, Results) else open(study) for study in (before, after))
    kinds = (first.study.about.kind, second.study.about.kind)
    if kinds[0] != kinds[1]:
        what = f"trials of kind {kinds[0]!r} and of kind {kinds[1]!r} measure different things"
        raise InputError(what, where=f"{first.folder}, {second.folder}")
    limit = math.inf if fail_above is None else fail_above
    return StudyDifference(first.folder, second.folder, fail_above, difference(_side(first), _side(second), limit))


def _side(study: Results) -> Side:
    return Side(study.tables.trials, study.tables.factors)


def cells(change: Change) -> list[str]:
    """A configuration's row of a table of `COLUMNS`."""
    times = ["" if value is None else seconds(value) for value in (change.before, change.after)]
    return [*times, f"{change.ratio:.3f}", ratio_span(change.low, change.high), change.verdict]


def label(change: Change, varied: tuple[str, ...]) -> str:
    """A configuration by the factors that tell it from others."""
    return ", ".join(str((change.factors or {}).get(name, "-")) for name in varied)


def _numbers(change: Change) -> dict[str, Any]:
    numbers = asdict(change)
    del numbers["factors"]
    return numbers


def _overall(difference: Difference) -> str:
    overall = difference.overall
    assert overall is not None
    many = len(difference.changes)
    over = "the only configuration that both have" if many == 1 else f"all {many} configurations that both have"
    text = f"A step takes {overall.ratio:.3f} times as long as before over {over}"
    if overall.low is None or overall.high is None:
        return f"{text}; without replicates nothing tells that from noise."
    sure = f"beyond doubt {overall.verdict}" if overall.verdict else "not a change that the noise leaves beyond doubt"
    kind = "95 % interval" if many == 1 else "95 % of all:"
    return f"{text} ({kind} {overall.low:.3f} to {overall.high:.3f}): {sure}."


def _counted(difference: Difference) -> str:
    slower, faster = len(difference.with_verdict("slower")), len(difference.with_verdict("faster"))
    rest = len(difference.changes) - slower - faster
    return f"{slower} are slower and {faster} faster beyond doubt; {rest} cannot be told from no change."


def _alone(difference: Difference) -> list[str]:
    sides = ((difference.only_before, "first"), (difference.only_after, "second"))
    return [
        f"{len(rows)} configuration{'s are' if len(rows) > 1 else ' is'} in the {which} study only."
        for rows, which in sides if rows
    ]  # fmt: skip


def _verdict(difference: Difference, allowed: float) -> str:
    slow = [change for change in difference.changes if change.too_slow]
    if not difference.too_slow:
        return f"Nothing is beyond doubt more than {100 * allowed:.3g} % slower."
    which = f"{len(slow)} of {len(difference.changes)} configurations" if slow else "The mean of all configurations"
    return f"{which} {'are' if len(slow) > 1 else 'is'} beyond doubt more than {100 * allowed:.3g} % slower."

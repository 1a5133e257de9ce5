"""The words on effects: short, true, and a table that fits a terminal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from steplab.analysis.effects.analysis import designed
from steplab.analysis.effects.sentences import TABLE_COLUMNS, describe, effect_rows, table_rows

LEVELS = {"compute_s": [0.002, 0.008], "strategy": ["accumulate:4", "sync"], "workers": [1, 2, 3]}


def test_the_sentences_name_what_matters(trials_of: Callable[..., pd.DataFrame]) -> None:
    said = describe(designed(trials_of(LEVELS, noise=0.01), list(LEVELS)))
    text = " ".join(said)
    assert said[0] == "Effects: 60 trials of a 2 × 2 × 3 design (compute_s, strategy, workers), 5 blocks."
    assert "ratios (log scale)" in said[1]
    assert "Of the variation, these explain: compute_s" in text
    assert "strategy and workers act together" in text
    assert all(len(sentence) < 400 and sentence.endswith(".") for sentence in said)


def test_no_effect_is_said_as_no_effect(trials_of: Callable[..., pd.DataFrame]) -> None:
    said = describe(designed(trials_of(LEVELS, noise=0.1, law=lambda _: 1.0), list(LEVELS)))
    assert "No factor and no pair of factors has an effect that the noise leaves beyond doubt." in said


def test_a_level_that_always_fails_is_said_once(trials_of: Callable[..., pd.DataFrame]) -> None:
    trials = trials_of(LEVELS, noise=0.01)
    trials["status"] = np.where(trials["workers"] == 3, "timeout", "ok")
    text = " ".join(describe(designed(trials, list(LEVELS))))
    assert "4 combinations have no good trial: workers 3 (everywhere)." in text
    assert "and 17 more" in text  # of the 20 trials that timed out three are named


def test_the_tables_fit_80_columns(trials_of: Callable[..., pd.DataFrame]) -> None:
    long = {"a_factor_with_a_rather_long_name": [1, 2], "another_factor_with_a_long_name": ["x" * 60, "y"]}
    found = designed(trials_of(long, noise=0.01), list(long))
    for rows in ([TABLE_COLUMNS, *table_rows(found)], effect_rows(found)):
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        assert sum(widths) + 2 * len(widths) <= 80

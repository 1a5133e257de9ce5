"""The page's tables say what the command line says."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd

from steplab.analysis.effects.analysis import designed
from steplab.analysis.effects.sentences import table_rows
from steplab.report.tables import anova


def test_the_analysis_of_variance_has_the_verdicts_of_the_command_line_and_no_others() -> None:
    rng = np.random.default_rng(1)
    rows = [
        {"batch_size": size, "threads": threads, "replicate": at, "t_iter": size * np.exp(0.02 * rng.standard_normal())}
        for size, threads, at in product((1, 2), (1, 2), range(4))
    ]
    trials = pd.DataFrame(rows).assign(status="ok", workers=1)
    trials = trials.assign(trial=trials.index.astype(str), started=trials.index.astype(float))
    experiment = replace(designed(trials, ["batch_size", "threads"]), confounded=("threads",))
    page = anova(SimpleNamespace(analysis=SimpleNamespace(designed=experiment)))  # type: ignore[arg-type]
    verdicts = [row[-1] for row in page.rows]
    assert verdicts == [row[-1] for row in table_rows(experiment)]
    assert {"real", "confounded", ""} == set(verdicts)
    assert [column.title for column in page.columns][-2:] == ["F", "verdict"]  # no p-value that decides otherwise

"""Utilisation: what a step computes by its time, against the roof, with the interval of the time."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from steplab.analysis.sentences import sentences
from steplab.analysis.study import analyse
from steplab.analysis.utilisation import FLOPS, ROOF, TOKENS, WATTS


def _analysed(synthetic: Callable[..., pd.DataFrame], **columns: float) -> tuple[pd.DataFrame, object]:
    trials = synthetic([{"batch_size": 16, "workers": n, "noise": 0.01} for n in (1, 2)])
    return trials, analyse(trials.assign(**columns), trials.attrs["factors"])


def test_a_share_of_the_roof_has_the_interval_of_the_time(synthetic: Callable[..., pd.DataFrame]) -> None:
    _, analysis = _analysed(synthetic, **{FLOPS: 3e9, ROOF: 2e11})
    for group in analysis.groups:
        used, t = group.utilisation, group.t_iter
        assert used.flops_per_s.value == pytest.approx(3e9 / t.median)
        assert used.share.value == pytest.approx(3e9 / 2e11 / t.median)
        # A longer step is a lower share.
        assert used.share.ends == pytest.approx((3e9 / 2e11 / t.high, 3e9 / 2e11 / t.low))
        assert used.tokens_per_s is None and used.tokens_per_joule is None


def test_tokens_are_told_for_a_second_and_for_a_joule(synthetic: Callable[..., pd.DataFrame]) -> None:
    _, analysis = _analysed(synthetic, **{TOKENS: 4096.0, WATTS: 50.0, FLOPS: 3e9, ROOF: 2e11})
    best = analysis.groups[0]
    assert best.utilisation.tokens_per_s.value == pytest.approx(4096 / best.t_iter.median)
    assert best.utilisation.tokens_per_joule.value == pytest.approx(4096 / best.t_iter.median / 50)
    (told,) = [str(sentence) for sentence in sentences(analysis) if "tokens/s" in str(sentence)]
    assert "for a joule" in told and f"reach {best.utilisation.share.value:.1%} (" in told


def test_nothing_is_said_where_nothing_is_known(synthetic: Callable[..., pd.DataFrame]) -> None:
    trials, analysis = _analysed(synthetic, **{WATTS: 50.0, ROOF: 2e11})
    assert all(group.utilisation is None for group in analysis.groups)
    assert sentences(analysis) == sentences(analyse(trials, trials.attrs["factors"]))

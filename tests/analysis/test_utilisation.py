"""Utilisation: what a step computes by its time, against the roof, with the interval of the time."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from steplab.analysis.sentences import sentences
from steplab.analysis.study import analyse
from steplab.analysis.utilisation import FLOPS, ROOF, TOKENS, power_column

RAPL, ESTIMATED = power_column("rapl"), power_column("estimated")


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
    _, analysis = _analysed(synthetic, **{TOKENS: 4096.0, RAPL: 50.0, FLOPS: 3e9, ROOF: 2e11})
    best = analysis.groups[0]
    assert best.utilisation.tokens_per_s.value == pytest.approx(4096 / best.t_iter.median)
    assert best.utilisation.tokens_per_joule.value == pytest.approx(4096 / best.t_iter.median / 50)
    (told,) = [str(sentence) for sentence in sentences(analysis) if "tokens/s" in str(sentence)]
    assert "for a joule at the trials' mean power;" in told and f"reach {best.utilisation.share.value:.1%} (" in told


def test_nothing_is_said_where_nothing_is_known(synthetic: Callable[..., pd.DataFrame]) -> None:
    trials, analysis = _analysed(synthetic, **{RAPL: 50.0, ROOF: 2e11})
    assert all(group.utilisation is None for group in analysis.groups)
    assert sentences(analysis) == sentences(analyse(trials, trials.attrs["factors"]))


def test_an_estimated_power_is_called_so(synthetic: Callable[..., pd.DataFrame]) -> None:
    _, analysis = _analysed(synthetic, **{TOKENS: 4096.0, ESTIMATED: 50.0})
    assert {group.utilisation.energy_provenance for group in analysis.groups} == {"estimated"}
    (told,) = [str(sentence) for sentence in sentences(analysis) if "tokens/s" in str(sentence)]
    assert told.endswith("for a joule at the trials' mean power (estimated).")


def test_powers_of_different_sources_make_no_figure(synthetic: Callable[..., pd.DataFrame]) -> None:
    trials, _ = _analysed(synthetic)
    trials[TOKENS] = 4096.0
    # One of three replicates was estimated, the others were measured.
    trials[ESTIMATED] = 50.0
    trials.loc[trials["replicate"] > 0, [ESTIMATED, RAPL]] = [float("nan"), 50.0]
    used = [group.utilisation for group in analyse(trials, trials.attrs["factors"]).groups]
    assert [(one.tokens_per_joule, one.energy_provenance) for one in used] == [(None, "")] * 2
    assert all(one.tokens_per_s is not None for one in used)

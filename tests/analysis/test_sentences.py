"""The findings in sentences: three to six, each with the section of its evidence."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from steplab.analysis.sentences import sentences
from steplab.analysis.study import analyse


def test_sentences_carry_their_evidence(synthetic: Callable[..., pd.DataFrame]) -> None:
    trials = synthetic([{"batch_size": 16, "workers": n, "latency_s": 0.02, "noise": 0.01} for n in (1, 2)])
    said = sentences(analyse(trials, trials.attrs["factors"]))
    assert 3 <= len(said) <= 6
    assert [one.evidence for one in said] == ["configurations", "phases", "scaling", "effects", "noise"]
    assert "Most is lost with workers 2 to communication" in str(said[2])


def test_frameworks_get_a_sentence_where_there_are_several(synthetic: Callable[..., pd.DataFrame]) -> None:
    configs = [{"batch_size": batch, "workers": 1, "noise": 0.01} for batch in (8, 16, 32)]
    slow = synthetic(configs, own=lambda _: {"compute_s": 0.01}).assign(framework="other")
    trials = pd.concat([synthetic(configs), slow], ignore_index=True)
    said = sentences(analyse(trials, ["framework", "batch_size", "workers"]))
    (frameworks,) = [one for one in said if one.evidence == "frameworks"]
    assert said[0] is frameworks
    assert frameworks.text.startswith("By throughput over 3 configurations: synthetic before other (")


def test_an_empty_study_says_so() -> None:
    said = sentences(analyse(pd.DataFrame([]), []))
    assert "No trial of this study has been measured." in str(said[0])


def test_shares_say_that_they_are_of_the_phased_step_where_it_is_another(
    synthetic: Callable[..., pd.DataFrame],
) -> None:
    trials = synthetic([{"batch_size": 16, "workers": 1}])
    told = [
        str(sentences(analyse(trials.assign(observer_cost=cost), trials.attrs["factors"]))[1])
        for cost in (0.05, 0.3, -0.2)
    ]
    assert "Of a step," in told[0]
    assert "Of the phased step (30% longer than the native one)," in told[1]
    assert "Of the phased step (20% shorter than the native one)," in told[2]

"""Why more workers are slower: on the synthetic law every cause that is made dominant is named, with its seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.scaling.why import Why, why
from steplab.analysis.summary import summarise
from steplab_worker import networks

QUIET = {"latency_s": 0.0, "bandwidth_bytes_s": 1e30, "update_s": 0.0, "compute_s": 0.0, "sample_s": 1e-3}
Synthetic = Callable[..., pd.DataFrame]


def asked(trials: pd.DataFrame) -> list[Why]:
    return why(trials, trials.attrs["factors"])


def pair(workers: int = 4, **own: Any) -> list[dict[str, Any]]:
    return [{"batch_size": 16, "workers": n, **QUIET, **own} for n in (1, workers)]


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize(
    ("law", "cause", "lost"),
    [
        ({"contention": 0.5}, "contention", 0.016 * 1.5),
        ({"imbalance": 0.8}, "waiting", 0.016 * 0.8),
        ({"latency_s": 0.02}, "communication", 0.04),
        ({"bandwidth_bytes_s": 1e7}, "communication", 1.5 * 61706 * 4 / 1e7),
    ],
)
def test_the_dominant_cause_is_named(
    synthetic: Synthetic, law: dict[str, float], cause: str, lost: float, noise: float
) -> None:
    (found,) = asked(synthetic(pair(**law, noise=noise), replicates=4))
    first = found.causes[0]
    assert (first.key, first.sure) == (cause, True)
    assert first.amount.seconds == pytest.approx(lost, rel=0.1 if noise else 1e-6)
    assert found.excess.seconds == pytest.approx(lost, rel=0.1 if noise else 1e-6)
    assert first.share > 0.8
    assert first.title in found.answer


def test_phases_that_nobody_measured_are_no_causes(synthetic: Synthetic) -> None:
    trials = synthetic(pair(latency_s=0.02, noise=0.03), replicates=4)
    trials["t_io"] = np.nan
    (found,) = asked(trials)
    assert "loader" not in {cause.key for cause in found.causes}
    assert sum(cause.share for cause in found.causes) == pytest.approx(1.0)


def test_a_loader_that_gets_slower_is_named(synthetic: Synthetic) -> None:
    # Two ranks on one disk: each reads half as fast, which the law has no factor for.
    trials = synthetic(pair(2), own=lambda config: {"io_s": 1e-4 if config["workers"] == 1 else 2e-3})
    (found,) = asked(trials)
    assert found.causes[0].key == "loader"
    assert found.causes[0].amount.seconds == pytest.approx(16 * 1.9e-3)
    assert found.helps[0].key == "loader"


def test_an_update_that_no_worker_shortens_is_overhead(synthetic: Synthetic) -> None:
    configs = [{"global_batch_size": 64, "workers": n, **QUIET, "update_s": 0.05} for n in (1, 4)]
    (found,) = asked(synthetic(configs))
    assert found.kind == "strong"
    assert found.causes[0].key == "overhead"
    assert found.causes[0].amount.seconds == pytest.approx(0.05 * 3 / 4)


def test_compute_that_does_not_shrink_is_named_under_strong_scaling(synthetic: Synthetic) -> None:
    configs = [{"global_batch_size": 64, "workers": n, **QUIET, "compute_s": 0.05} for n in (1, 4)]
    (found,) = asked(synthetic(configs))
    assert found.causes[0].key == "contention"
    assert found.causes[0].amount.seconds == pytest.approx(0.05 * 3 / 4)
    assert "does not shrink" in found.causes[0].sentence


def test_what_back_propagation_hides_is_no_loss(synthetic: Synthetic) -> None:
    (found,) = asked(synthetic(pair(latency_s=0.004, overlap=0.5)))
    hidden = 0.5 * 2 / 3 * 0.016
    assert found.hidden_s == pytest.approx(hidden)
    assert found.causes[0].key == "communication"
    assert found.causes[0].amount.seconds == pytest.approx(0.008 - hidden)
    assert found.unexplained_s == pytest.approx(0.0, abs=1e-9)
    assert "hide behind back-propagation" in found.causes[0].sentence


def test_measured_overlap_goes_before_the_difference_of_modes(synthetic: Synthetic) -> None:
    trials = synthetic(pair(latency_s=0.004))
    several = trials["workers"] > 1
    trials["t_hidden"] = (0.003 * several).where(several)
    (found,) = asked(trials)
    assert found.hidden_s == pytest.approx(0.003)
    assert found.causes[0].amount.seconds == pytest.approx(0.005)


def test_two_networks_tell_latency_from_bytes(synthetic: Synthetic) -> None:
    law = {"latency_s": 0.01, "bandwidth_bytes_s": 1e8}
    configs = [{"network": net, **config} for net in ("lenet5", "mlp") for config in pair(2, **law)]
    found = {one.factors["network"]: {c.key: c.amount.seconds for c in one.causes} for one in asked(synthetic(configs))}
    for network in ("lenet5", "mlp"):
        assert found[network]["latency"] == pytest.approx(0.01, rel=1e-6)
        # A ring of two ranks sends 2·(2 − 1)/2 times the gradients, 4 bytes for each weight.
        assert found[network]["bytes"] == pytest.approx(4 * networks.build(network).parameters / 1e8, rel=1e-6)


def test_causes_sum_to_what_was_lost(synthetic: Synthetic) -> None:
    law = {"contention": 0.2, "imbalance": 0.4, "latency_s": 0.003, "bandwidth_bytes_s": 1e9, "noise": 0.05}
    for one in asked(synthetic(pair(**law), replicates=3)):
        assert sum(c.amount.seconds for c in one.causes) + one.unexplained_s == pytest.approx(one.excess.seconds)


@pytest.mark.parametrize(("law", "words"), [({}, "no loss is seen"), ({"contention": 0.1}, "are within noise")])
def test_a_loss_within_noise_is_not_explained(synthetic: Synthetic, law: dict[str, float], words: str) -> None:
    trials = synthetic(pair(2, **law), replicates=3)
    # Replicates of the several workers that differ by more than what may have been lost.
    trials.loc[trials["workers"] == 2, "t_iter"] *= [0.6, 0.99, 1.5]
    (found,) = asked(trials)
    assert not found.excess.sure
    assert words in found.answer
    assert (found.causes, found.helps) == ((), ())


def test_its_time_and_efficiency_are_those_of_the_table(synthetic: Synthetic) -> None:
    trials = synthetic(pair(2, latency_s=0.02, noise=0.1), replicates=4)
    trials["t_iter"] *= np.tile([1.0, 1.0, 1.0, 3.0], 2)  # means would be far off
    (found,) = asked(trials)
    (group,) = [one for one in summarise(trials, trials.attrs["factors"]) if one.factors["workers"] == 2]
    assert (found.t_iter, found.efficiency) == (group.t_iter.median, group.efficiency)
    assert group.speedup is not None and group.speedup.high is not None
    assert found.excess.low == pytest.approx(group.t_iter.median * (1 - group.speedup.high / 2))


def test_gains_have_intervals_and_are_beyond_doubt(synthetic: Synthetic) -> None:
    (found,) = asked(synthetic(pair(latency_s=0.02, noise=0.05), replicates=4))
    assert found.helps
    for way in found.helps:
        assert way.low is not None and way.high is not None
        assert 1 < way.low <= way.gain <= way.high


def test_one_replicate_has_no_intervals(synthetic: Synthetic) -> None:
    (found,) = asked(synthetic(pair(contention=1.0), replicates=1))
    assert found.causes[0].key == "contention"
    assert found.causes[0].amount.low is None
    assert not found.causes[0].sure


def test_without_phases_the_cause_is_not_guessed(synthetic: Synthetic) -> None:
    trials = synthetic(pair(contention=1.0))
    trials[["t_f", "t_b", "t_io", "t_wait", "t_move", "t_u", "t_other", "t_iter_phased", "lif"]] = float("nan")
    (found,) = asked(trials)
    assert found.causes == ()
    assert "phases = true" in found.answer


def test_accumulation_is_predicted_as_the_law_has_it(synthetic: Synthetic) -> None:
    (found,) = asked(synthetic(pair(latency_s=0.02)))
    help_ = next(one for one in found.helps if one.key == "accumulate")
    assert not help_.measured
    assert help_.gain == pytest.approx((0.016 + 0.04) / (0.016 + 0.04 / 4))


def test_a_sharded_configuration_is_offered_whole_parameters_and_no_accumulation(synthetic: Synthetic) -> None:
    slow, quick = (synthetic(pair(2, latency_s=seconds)) for seconds in (0.02, 0.001))
    trials = pd.concat([slow.assign(strategy="sharded"), quick.assign(strategy="sync", latency_s=0.02)])
    trials["trial"] = [f"t{number}" for number in range(len(trials))]
    trials.attrs["factors"] = (*slow.attrs["factors"], "strategy")
    found = next(why for why in asked(trials) if why.factors["strategy"] == "sharded")
    offered = {one.key: one for one in found.helps}
    assert "accumulate" not in offered
    assert offered["whole"].measured and offered["whole"].gain == pytest.approx(
        (0.016 + 0.02) / (0.016 + 0.001), rel=0.01
    )


def test_a_network_twice_as_fast_halves_the_exchange_between_hosts(synthetic: Synthetic) -> None:
    trials = synthetic(pair(latency_s=0.02))
    assert not [one for found in asked(trials) for one in found.helps if one.key == "network"], "they are on one host"
    trials["nodes"] = trials["workers"]
    (found,) = asked(trials)
    help_ = next(one for one in found.helps if one.key == "network")
    assert help_.gain == pytest.approx((0.016 + 0.04) / (0.016 + 0.02))
    assert "accumulate:32 would hide it" in help_.how  # 0.04/32 of exchange beside 0.016 of the rest: 7 %


def test_a_measured_rival_is_quoted_instead_of_a_prediction(synthetic: Synthetic) -> None:
    configs = pair(2, latency_s=0.02) + [{**config, "batch_size": 32} for config in pair(2, latency_s=0.02)]
    found = next(one for one in asked(synthetic(configs)) if one.factors["batch_size"] == 16)
    help_ = next(one for one in found.helps if one.key == "batch")
    assert help_.measured
    assert help_.gain == pytest.approx(2 * (0.016 + 0.02) / (0.032 + 0.02))


def test_fewer_ranks_help_where_one_does_more(synthetic: Synthetic) -> None:
    (found,) = asked(synthetic(pair(2, latency_s=0.1)))
    help_ = next(one for one in found.helps if one.key == "fewer-ranks")
    assert help_.measured and help_.gain == pytest.approx((0.116 / 2) / 0.016)


def test_more_ranks_and_threads_than_cpus_are_oversubscribed(synthetic: Synthetic) -> None:
    trials = synthetic(pair(4, contention=0.5))
    trials = trials.assign(framework="torch", cpus=2)
    trials.attrs["factors"] = ["framework", "batch_size", "workers"]
    (found,) = asked(trials)
    assert found.oversubscribed == "4 ranks × 1 thread on 2 CPUs"
    assert "oversubscribed" in found.causes[0].sentence
    assert found.helps[0].key == "threads"


@pytest.mark.parametrize(
    ("strategy", "words"),
    [("sync", "of gradients (1 MiB/s)"), ("sharded", "of parameters and gradients (1.5 MiB/s)")],
)
def test_what_travels_depends_on_the_strategy(synthetic: Synthetic, strategy: str, words: str) -> None:
    trials = synthetic(pair(workers=2, bandwidth_bytes_s=2.0**20)).assign(strategy=strategy, cpus=64)
    trials.attrs["factors"] = (*trials.attrs["factors"], "strategy")
    (answer,) = asked(trials)
    (exchange,) = (cause for cause in answer.causes if cause.key == "communication")
    assert words in exchange.sentence

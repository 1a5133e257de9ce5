"""Frameworks are compared in pairs; what is called real is real, and chance finds nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.frameworks import MOST_VARIANTS, Comparison, compare_frameworks, framework_pairs
from steplab.analysis.ranking import ranking

FACTORS = ["framework", "batch_size", "workers"]


def trials(
    speed: dict[str, float], *, noise: float = 0.05, block: float = 0.0, seed: int = 0, **own: Any
) -> pd.DataFrame:
    """Six configurations, four replicates; `block` is noise that a replicate's trials share."""
    rng = np.random.default_rng(seed)
    rows = []
    for replicate in range(4):
        for batch in (8, 16, 32, 64, 128, 256):
            shared = rng.normal(0, block)
            for framework, rate in speed.items():
                value = rate * batch**0.5 * np.exp(shared + rng.normal(0, noise))
                rows.append({"framework": framework, "batch_size": batch, "workers": 1, "throughput": value,
                             "replicate": replicate, "status": "ok"} | own)  # fmt: skip
    return pd.DataFrame(rows)


def overall(found: list[Comparison], measure: str = "throughput") -> list[Comparison]:
    return [one for one in found if one.factors is None and one.measure == measure]


def test_without_noise_the_ratio_is_exact() -> None:
    (one,) = overall(compare_frameworks(trials({"torch": 2.0, "mxnet": 1.0}, noise=0.0), FACTORS))
    assert (one.first, one.second, one.better) == ("mxnet", "torch", "torch")
    assert (one.ratio, one.low, one.high) == pytest.approx((0.5, 0.5, 0.5))


def test_ratios_lie_inside_their_intervals_in_most_repetitions() -> None:
    inside = np.zeros(2)
    for seed in range(100):
        first, *each = compare_frameworks(trials({"a": 1.0, "b": 1.3}, seed=seed), FACTORS)
        for at, one in enumerate((first, each[0])):
            assert one.low is not None and one.high is not None
            inside[at] += one.low <= 1 / 1.3 <= one.high
    assert inside.min() >= 90


def test_chance_makes_no_difference_real() -> None:
    wrong = [
        any(
            one.real
            for one in compare_frameworks(trials({"a": 1.0, "b": 1.0, "c": 1.0}, seed=seed), FACTORS)
            if one.factors
        )
        for seed in range(60)
    ]
    assert np.mean(wrong) <= 0.1


def test_pairing_removes_what_a_replicate_shares() -> None:
    (one,) = overall(compare_frameworks(trials({"a": 1.0, "b": 1.1}, noise=0.01, block=0.5), FACTORS))
    assert one.real and one.better == "b"
    assert one.ratio == pytest.approx(1 / 1.1, rel=0.02)


def test_joules_of_different_sources_are_never_compared() -> None:
    table = trials({"a": 1.0, "b": 1.0}, energy_j=10.0, seconds=1.0)
    table["energy_provenance"] = table["framework"].map({"a": "rapl", "b": "estimated"})
    assert not [one for one in compare_frameworks(table, FACTORS) if one.measure.startswith("energy")]
    table["energy_provenance"] = "rapl"
    assert overall(compare_frameworks(table, FACTORS), "energy of a sample (rapl)")


def with_energy(**own: Any) -> pd.DataFrame:
    """Both draw 10 W and do as much in a second; `b` warms up longer, so that its trials take more joules."""
    table = trials({"a": 1.0, "b": 1.0}, noise=0.01, energy_provenance="rapl", **own)
    table["energy_j"] = table["framework"].map({"a": 112.0, "b": 142.0})
    return table.assign(seconds=table["energy_j"] / 10)


def test_energy_is_that_of_a_sample_whatever_the_warm_up_takes() -> None:
    comparisons = compare_frameworks(with_energy(), FACTORS)
    (mean,) = overall(comparisons, "energy of a sample (rapl)")
    assert mean.ratio == pytest.approx(1.0, rel=0.02) and not mean.real
    assert not [pair for pair in comparisons if pair.measure.startswith("energy of a trial")]


def test_energy_of_a_training_is_that_of_the_whole_trial() -> None:
    (mean,) = overall(compare_frameworks(with_energy(kind="train"), FACTORS), "energy of a trial (rapl)")
    assert mean.ratio == pytest.approx(112 / 142) and mean.better == "a"


def test_without_a_throughput_no_energy_is_compared() -> None:
    table = with_energy(t_iter=0.1).drop(columns="throughput")
    assert not [pair for pair in compare_frameworks(table, FACTORS) if pair.measure.startswith("energy")]


def test_a_configuration_with_a_run_short_of_the_target_has_no_time_to_accuracy() -> None:
    times = {("a", 8): (10.0, 12.0, None), ("b", 8): (11.0, 11.5, 12.0),
             ("a", 16): (10.0, 12.0, 11.0), ("b", 16): (11.0, 11.5, 12.0)}  # fmt: skip
    rows = [
        {"framework": framework, "batch_size": batch, "workers": 1, "status": "ok", "replicate": replicate,
         "t_iter": 0.1, "target_accuracy": 0.9, "time_to_target_s": time}
        for (framework, batch), runs in times.items() for replicate, time in enumerate(runs)
    ]  # fmt: skip
    found = [pair for pair in compare_frameworks(pd.DataFrame(rows), FACTORS) if pair.measure == "time to accuracy"]
    assert [(pair.configurations, pair.ratio) for pair in found] == [(1, pytest.approx(11 / 11.5))]


def test_less_is_better_for_memory_and_time_to_accuracy() -> None:
    table = trials({"a": 1.0, "b": 1.0})
    for name in ("memory_bytes", "time_to_target_s"):
        table[name] = table["framework"].map({"a": 1.0, "b": 2.0}) * np.random.default_rng(1).lognormal(
            0, 0.01, len(table)
        )
    found = compare_frameworks(table, FACTORS)
    assert [overall(found, name)[0].better for name in ("memory", "time to accuracy")] == ["a", "a"]


def test_own_factors_of_a_framework_make_variants_of_it() -> None:
    plain, compiled = trials({"torch": 1.0, "jax": 1.5}), trials({"torch": 1.4}, seed=9)
    plain["compile"] = plain["framework"].map({"torch": "no"})
    table = pd.concat([plain, compiled.assign(compile="yes")], ignore_index=True)
    found = overall(compare_frameworks(table, [*FACTORS, "compile"]))
    assert [(one.first, one.second) for one in found] == [
        ("jax", "torch compile=no"),
        ("jax", "torch compile=yes"),
        ("torch compile=no", "torch compile=yes"),
    ]


def test_options_of_one_network_make_no_variants() -> None:
    """They do not apply to the other network, whatever the framework; both networks are compared."""
    deep, plain = (trials({"torch": 1.0, "jax": 1.5}, seed=seed) for seed in (0, 9))
    table = pd.concat([deep.assign(network="gpt2", layers=4), plain.assign(network="lenet5")], ignore_index=True)
    comparisons = compare_frameworks(table, ["network", *FACTORS, "layers"])
    (mean,) = overall(comparisons)
    assert (mean.first, mean.second, mean.configurations) == ("jax", "torch", 12)
    single = [pair.factors for pair in comparisons if pair.factors is not None]
    assert {"network": "gpt2", "batch_size": 8, "workers": 1, "layers": 4} in single
    assert {"network": "lenet5", "batch_size": 8, "workers": 1} in single


def test_single_pairs_show_nothing() -> None:
    table = trials({"a": 1.0, "b": 2.0})
    (one,) = compare_frameworks(table[(table["replicate"] == 0) & (table["batch_size"] == 8)], FACTORS)
    assert not one.real and one.low is None
    assert "shows nothing" in one.sentence


def test_a_difference_is_real_exactly_if_its_interval_leaves_1_out() -> None:
    for seed in range(10):
        for one in compare_frameworks(trials({"a": 1.0, "b": 1.04, "c": 1.3}, seed=seed), FACTORS):
            assert one.low is not None and one.high is not None
            assert one.real == (one.low > 1 or one.high < 1)


def test_an_outlier_cannot_make_a_framework_better_against_the_medians() -> None:
    table = trials({"a": 1.0, "b": 1.001}, noise=1e-5)
    # One trial of b is much slower, so its mean is below that of a while its median is above.
    table.loc[(table["framework"] == "b") & (table["replicate"] == 0), "throughput"] *= 0.2
    for one in compare_frameworks(table, FACTORS):
        assert one.ratio == pytest.approx(1 / 1.001, rel=1e-3)
        assert one.better != "a"


def test_one_framework_is_not_compared() -> None:
    assert compare_frameworks(trials({"a": 1.0}), FACTORS) == []


def test_of_very_many_variants_the_slowest_are_left_out_and_named() -> None:
    speeds = {f"f{n:02}": 1.0 + 0.2 * n for n in range(MOST_VARIANTS + 2)}
    pairs = framework_pairs(trials(speeds, noise=0.01), FACTORS)
    assert pairs.left_out == ("f01", "f00")
    ranked = ranking(pairs.comparisons, "throughput", pairs.left_out)
    assert ranked is not None
    assert ranked.places[0].framework == f"f{MOST_VARIANTS + 1}"
    assert ranked.sentence.endswith("These are the 12 fastest of 14 variants; not compared: f01; f00.")

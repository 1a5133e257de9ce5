"""Questions that coincide have one verdict, and a threshold says what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.effects.sentences import describe
from steplab.analysis.sentences import sentences
from steplab.analysis.study import Analysis, analyse

Levels = dict[str, Sequence[Any]]


def study(levels: Levels, times: Any, noise: float = 0.02, replicates: int = 4, seed: int = 0, **more: Any) -> Analysis:
    """The analysis of a factorial whose step takes `times(cell)` seconds."""
    rng = np.random.default_rng(seed)
    rows = []
    for replicate, values in product(range(replicates), product(*levels.values())):
        cell = {"framework": "torch", "batch_size": 32, "workers": 1, "threads": 1} | dict(
            zip(levels, values, strict=True)
        )
        t = times(cell) * float(np.exp(noise * rng.standard_normal()))
        rows.append(cell | {
            "replicate": replicate, "t_iter": t, "throughput": cell["batch_size"] * cell["workers"] / t, "cpus": 2,
            "ranks_per_host": cell["workers"], "t_iter_low": t, "t_iter_high": t,
        } | more)  # fmt: skip
    frame = pd.DataFrame(rows).assign(status="ok", reason="", spread=0.01, drift=0.0, seconds=1.0)
    frame["trial"], frame["started"] = frame.index.astype(str), frame.index.astype(float)
    return analyse(frame[frame["workers"] * frame["threads"] <= 2], list(levels))


def words(found: Analysis) -> str:
    return " ".join(map(str, sentences(found)))


def test_the_effect_of_a_framework_is_that_of_its_pair() -> None:
    found = study(
        {"framework": ["jax", "torch"], "batch_size": [16, 64]}, lambda c: 2.0 if c["framework"] == "jax" else 1.0
    )
    (effect,) = [one for one in found.effects if one.factor == "framework"]
    (pair,) = [one for one in found.frameworks if one.factors is None and one.measure == "throughput"]
    assert (effect.ratio, effect.low, effect.high, effect.differs) == (pair.ratio, pair.low, pair.high, pair.real)
    assert effect.ratio == pytest.approx(0.5, rel=0.05)


def test_levels_of_a_single_factor_are_configurations() -> None:
    for seed in range(12):
        found = study({"optimizer": ["adam", "sgd"]}, lambda c: 1.0, noise=0.05, seed=seed)
        assert (len(found.fastest) == 1) == found.effects[0].differs


def test_the_loss_of_a_single_series_is_the_effect_of_its_workers() -> None:
    for seed in range(12):
        found = study({"workers": [1, 2]}, lambda c: 1.0 + 0.1 * (c["workers"] > 1), noise=0.05, seed=seed)
        assert found.why[0].excess.sure == (found.effects[0].differs and found.effects[0].ratio > 1)


def test_a_slope_is_an_effect_that_the_sentence_knows() -> None:
    levels = {"hidden": [10 * n for n in range(1, 15)], "optimizer": ["adam", "sgd"]}
    found = study(levels, lambda c: 0.01 * c["hidden"] ** 0.5, replicates=2)
    (effect,) = [one for one in found.effects if one.factor == "hidden"]
    assert (effect.level, effect.reference, effect.differs) == (140, 10, True)
    assert "The strongest single effect on the step time is hidden: 140 instead of 10 multiplies it by 3.7" in words(
        found
    )
    assert "Of the variation, these explain: hidden" in " ".join(describe(found.designed))


def test_thresholds_say_what_they_are_about_and_what_would_halve_them() -> None:
    levels = {"batch_size": [16, 64], "optimizer": ["adam", "sgd"]}
    found = study(levels, lambda c: c["batch_size"] / 16, replicates=3)
    noise = found.noise
    assert noise.detectable is not None and noise.detectable_effect is not None
    assert noise.detectable_effect < noise.detectable
    assert "Two single configurations must differ by" in words(found)
    assert f"on average over the design; {noise.halving} replicates instead of 3 would halve that." in words(found)
    more = study(levels, lambda c: c["batch_size"] / 16, replicates=noise.halving or 0, seed=1).noise
    assert (more.detectable_typical or 1.0) < 0.75 * (noise.detectable_typical or 0.0)


def test_more_configurations_make_differences_harder_to_see() -> None:
    few, many = (study({"seed": range(n)}, lambda c: 1.0, noise=0.05).noise for n in (4, 40))
    assert (many.detectable_typical or 0.0) > (few.detectable_typical or 0.0)


def test_no_noise_has_no_threshold() -> None:
    assert "must differ" not in words(study({"batch_size": [16, 64]}, lambda c: c["batch_size"] / 16, noise=0.0))


def cores(c: dict[str, Any]) -> float:
    """Two workers or two threads use two cores; threads a little worse."""
    return 1.1 if c["workers"] == 2 else 0.6 if c["threads"] == 2 else 1.0


def test_several_workers_are_compared_with_one_on_the_same_cores() -> None:
    (fair,) = study({"workers": [1, 2], "threads": [1, 2]}, cores, noise=0.1).fair
    assert (fair.workers, fair.cores, fair.threads) == (2, 2, 2)
    assert fair.ratio is not None and fair.ratio.value == pytest.approx(2 / 1.1 * 0.6, rel=0.2)
    assert fair.sentence.startswith("On the same 2 cores, 2 workers do ")
    assert fair.sentence.endswith("the work of one worker with 2 threads: the two cannot be told apart.")


def test_the_rival_is_the_fastest_single_worker_that_needs_no_more_cores() -> None:
    (fair,) = study({"workers": [1, 2], "threads": [1, 2]}, lambda c: 1.0 + 0.5 * (c["threads"] == 2)).fair
    assert fair.threads == 1  # two threads were slower than one
    assert fair.sentence.endswith("one worker with 1 thread (with 2 it was slower): more workers pay.")


def test_one_worker_on_all_cores_that_was_not_measured_is_asked_for() -> None:
    found = study({"workers": [1, 2]}, cores)
    assert found.fair[0].ratio is None
    assert "One worker with all 2 cores that 2 workers use was not measured" in words(found)
    assert "write threads = [1, 2] into [factors]" in words(found)
    assert found.why[0].fair == found.fair[0].sentence


def test_a_virtual_clock_has_no_cores() -> None:
    assert study({"workers": [1, 2]}, cores, framework="synthetic").fair == []


def test_without_a_batch_size_there_are_no_samples_per_second() -> None:
    assert "samples/s" in words(study({"batch_size": [1], "workers": [1, 2]}, cores))
    unknown = words(study({"workers": [1, 2]}, cores, batch_size=float("nan")))
    assert "The shortest step takes" in unknown and "highest throughput" not in unknown


def test_a_number_with_many_digits_and_levels_is_judged_by_its_ends() -> None:
    rates = np.random.default_rng(3).uniform(0.001, 0.1, 15).tolist()
    found = study({"learning_rate": rates}, lambda cell: 0.01 + cell["learning_rate"], replicates=3)
    (effect,) = found.verdicts.designed.main
    assert effect.differs and effect.ratio == pytest.approx((0.01 + max(rates)) / (0.01 + min(rates)), rel=0.1)


def of_unknown_work(steps: dict[int, float], **phases: float) -> Analysis:
    """The analysis of a table without batch sizes: step times by the number of workers, three replicates of 1 %."""
    rows = [
        {"workers": n, "replicate": at, "t_iter": step * factor}
        | {name: share * step for name, share in phases.items()}
        for n, step in steps.items()
        for at, factor in enumerate((0.99, 1.0, 1.01))
    ]
    frame = pd.DataFrame(rows).assign(status="ok", reason="", batch_size=np.nan, threads=1, framework="unknown")
    frame = frame.assign(t_iter_low=frame["t_iter"], t_iter_high=frame["t_iter"], spread=0.01, drift=0.0, seconds=1.0)
    frame["trial"], frame["started"] = frame.index.astype(str), frame.index.astype(float)
    return analyse(frame, ["workers"])


def test_effects_on_times_do_not_depend_on_who_is_taken_to_do_the_work() -> None:
    found = of_unknown_work({2: 0.010, 4: 0.010, 8: 0.010})
    assert [effect.ratio for effect in found.effects] == pytest.approx([1.0, 1.0])
    assert not any(effect.differs for effect in found.effects)


def test_the_shortest_step_has_equals_by_its_time_where_the_work_is_not_known() -> None:
    found = of_unknown_work({1: 0.0100, 2: 0.0101, 4: 0.0200})
    assert [group.workers for group in found.fastest] == [1, 2]


def test_fewer_workers_are_no_remedy_where_each_is_taken_to_bring_its_own_work() -> None:
    found = of_unknown_work({1: 0.010, 2: 0.012, 4: 0.016}, t_f=0.5, t_b=0.4, t_u=0.1)
    keys = {remedy.key for answer in found.why for remedy in answer.helps}
    assert keys and "fewer-ranks" not in keys

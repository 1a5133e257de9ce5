"""Designed experiments: known laws come back, textbook tables too; nothing is claimed that is not there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests

from steplab.analysis.effects.analysis import anova, designed, interactions, main_effects, residual_checks
from steplab.analysis.effects.findings import Designed
from steplab.analysis.effects.sentences import describe
from steplab.store import tables

Trials = Callable[..., pd.DataFrame]
Law = Callable[[Mapping[str, Any]], float]

# The UFRGS design: 2 × 2 × 3 × 3; `compute_s` stands for the two networks.
UFRGS = {
    "compute_s": [0.002, 0.008],
    "strategy": ["accumulate:4", "sync"],
    "batch_size": [32, 64, 100],
    "workers": [1, 2, 3],
}
SMALL: dict[str, list[Any]] = {"a": [1, 2], "b": ["x", "y"], "c": [1, 2, 3]}


def null(_: Mapping[str, Any]) -> float:
    return 0.01


def geometric(law: Law, levels: Mapping[str, list[Any]], **fixed: Any) -> float:
    """The true marginal mean: the law averaged in logarithms over all other factors."""
    free = {name: values for name, values in levels.items() if name not in fixed}
    grid = pd.MultiIndex.from_product(free.values(), names=list(free))
    logs = [math.log(law({**dict(zip(free, cell, strict=True)), **fixed})) for cell in grid]
    return math.exp(sum(logs) / len(logs))


def true_interaction(law: Law, levels: Mapping[str, list[Any]], one: Any) -> float:
    (a, b), (x, y), (x0, y0) = one.factors, one.levels, one.references
    both, left = geometric(law, levels, **{a: x, b: y}), geometric(law, levels, **{a: x, b: y0})
    right, neither = geometric(law, levels, **{a: x0, b: y}), geometric(law, levels, **{a: x0, b: y0})
    return both * neither / (left * right)


def row(found: Designed, term: str) -> Any:
    (made,) = (one for one in found.anova if one.term == term)
    return made


# The law comes back.


def test_without_noise_effects_and_interactions_are_exact(trials_of: Trials, law: Law) -> None:
    found = designed(trials_of(UFRGS), list(UFRGS))
    assert len(found.main) == 1 + 1 + 2 + 2
    for one in found.main:
        true = geometric(law, UFRGS, **{one.factor: one.level}) / geometric(law, UFRGS, **{one.factor: one.reference})
        assert (one.ratio, one.low, one.high) == pytest.approx((true, true, true), rel=1e-9)
        assert one.differs
    assert len(found.interactions) == 1 + 2 + 2 + 2 + 2 + 4
    for pair in found.interactions:
        true = true_interaction(law, UFRGS, pair)
        assert pair.ratio == pytest.approx(true, rel=1e-9)
        assert pair.differs == (abs(true - 1) > 1e-9)


def test_with_noise_all_effects_lie_in_their_intervals_in_9_of_10_studies(trials_of: Trials, law: Law) -> None:
    true: dict[Any, float] = {}
    mains, pairs = 0, 0
    for seed in range(100):
        found = designed(trials_of(UFRGS, noise=0.08, blocks=0.05, seed=seed), list(UFRGS))
        if not true:
            true = {
                (one.factor, one.level): geometric(law, UFRGS, **{one.factor: one.level})
                / geometric(law, UFRGS, **{one.factor: one.reference})
                for one in found.main
            } | {(one.factors, one.levels): true_interaction(law, UFRGS, one) for one in found.interactions}
        mains += all(one.low <= true[one.factor, one.level] <= one.high for one in found.main)
        pairs += all(one.low <= true[one.factors, one.levels] <= one.high for one in found.interactions)
    assert mains >= 90
    assert pairs >= 90


def test_a_study_without_effects_is_rarely_given_one(trials_of: Trials) -> None:
    studies = [designed(trials_of(SMALL, 3, noise=0.1, seed=seed, law=null), list(SMALL)) for seed in range(200)]
    assert np.mean([any(one.differs for one in found.main) for found in studies]) <= 0.1
    assert np.mean([any(one.differs for one in found.interactions) for found in studies]) <= 0.1
    sure = [any(line.holm is not None and line.holm < 0.05 for line in found.anova) for found in studies]
    assert np.mean(sure) <= 0.1


def test_a_rehearsed_study_gives_back_its_law(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path], law: Law
) -> None:
    levels: dict[str, list[Any]] = {"workers": [1, 2], "batch_size": [8, 16, 32], "strategy": ["accumulate:4", "sync"]}
    assert steplab("run", study_file(design="", measure="phases = false", **levels), "--out", "out").code == 0
    loaded = tables.load(tmp_path / "out")
    found = designed(loaded.trials, loaded.factors)
    assert found.factors == ("workers", "batch_size", "strategy")
    assert len(found.main) == 4
    for one in found.main:
        true = geometric(law, levels, **{one.factor: one.level}) / geometric(law, levels, **{one.factor: one.reference})
        assert one.ratio == pytest.approx(true, rel=1e-6)


def test_a_power_law_comes_back_and_a_bend_is_seen(trials_of: Trials) -> None:
    levels = {"batch_size": [8, 16, 32, 64], "kernel": ["a", "b"]}

    def straight(at: Mapping[str, Any]) -> float:
        return float(0.01 * at["batch_size"] ** 0.7)

    def bent(at: Mapping[str, Any]) -> float:
        return 0.01 + 0.001 * float(at["batch_size"])

    (trend,) = designed(trials_of(levels, noise=0.03, law=straight), list(levels)).trends
    assert trend.low < 0.7 < trend.high
    assert trend.straight
    (trend,) = designed(trials_of(levels, noise=0.03, law=bent), list(levels)).trends
    assert not trend.straight


def test_marginal_means_weigh_all_other_levels_equally(trials_of: Trials, law: Law) -> None:
    whole = trials_of(UFRGS)
    lopsided = whole[(whole["replicate"] < 2) | (whole["workers"] == 1)]
    found = designed(lopsided, list(UFRGS))
    for mean in found.means:
        true = geometric(law, UFRGS, **dict(zip(mean.factors, mean.levels, strict=True)))
        # With three-factor interactions in the law the two-factor model is only close where cells weigh unequally.
        assert mean.seconds == pytest.approx(true, rel=0.02)
    assert sum(mean.trials for mean in found.means if mean.factors == ("workers",)) == len(lopsided)
    assert len(found.pair_means) == 2 * 2 + 2 * 3 * 4 + 3 * 3


# Textbook numbers.


def from_cells(cells: Mapping[tuple[Any, ...], list[float]], names: list[str]) -> pd.DataFrame:
    """Trials whose logarithms are the numbers of a textbook."""
    rows = [
        {**dict(zip(names, cell, strict=True)), "t_iter": math.exp(y / 100), "replicate": 0, "trial": f"{cell}{at}"}
        for cell, values in cells.items()
        for at, y in enumerate(values)
    ]
    return pd.DataFrame(rows).assign(status="ok", started=0.0)


def test_the_battery_experiment_of_the_textbook() -> None:
    """Montgomery, Design and Analysis of Experiments, two-factor factorial: material and temperature, n = 4."""
    cells = {
        (1, 15): [130, 155, 74, 180], (1, 70): [34, 40, 80, 75], (1, 125): [20, 70, 82, 58],
        (2, 15): [150, 188, 159, 126], (2, 70): [136, 122, 106, 115], (2, 125): [25, 70, 58, 45],
        (3, 15): [138, 110, 168, 160], (3, 70): [174, 120, 150, 139], (3, 125): [96, 104, 82, 60],
    }  # fmt: skip
    found = designed(from_cells({k: list(map(float, v)) for k, v in cells.items()}, ["m", "t"]), ["m", "t"])
    assert found.scale.name == "log"
    squares = [(one.term, one.df, round(one.sum_squares * 1e4, 1)) for one in found.anova]
    assert squares == [("m", 2, 10683.7), ("t", 2, 39118.7), ("m × t", 4, 9613.8), ("residual", 27, 18230.8)]
    assert [round(one.f, 2) for one in found.anova if one.f is not None] == [7.91, 28.97, 3.56]
    assert row(found, "m × t").p == pytest.approx(0.0186, abs=1e-4)


def test_the_vascular_grafts_of_the_textbook() -> None:
    """The same book, randomised complete blocks: four pressures in six batches of resin."""
    yields = {
        8500: [90.3, 89.2, 98.2, 93.9, 87.4, 97.9], 8700: [92.5, 89.5, 90.6, 94.7, 87.0, 95.8],
        8900: [85.5, 90.8, 89.6, 86.2, 88.0, 93.4], 9100: [82.5, 89.5, 85.6, 87.4, 78.9, 90.7],
    }  # fmt: skip
    rows = [
        {"pressure": level, "replicate": block, "t_iter": math.exp(y / 100), "trial": f"{level}-{block}"}
        for level, values in yields.items()
        for block, y in enumerate(values)
    ]
    found = designed(pd.DataFrame(rows).assign(status="ok", started=0.0), ["pressure"])
    squares = [(one.term, one.df, round(one.sum_squares * 1e4, 2)) for one in found.anova]
    assert squares == [("block", 5, 192.25), ("pressure", 3, 178.17), ("residual", 15, 109.89)]
    assert row(found, "pressure").f == pytest.approx(8.11, abs=0.005)
    assert row(found, "pressure").p == pytest.approx(0.0019, abs=5e-5)


@pytest.mark.parametrize(("whole", "kind"), [(True, 3), (False, 2)])
def test_unbalanced_tables_agree_with_statsmodels(trials_of: Trials, whole: bool, kind: int) -> None:
    trials = trials_of(SMALL, 4, noise=0.2, seed=3).sample(frac=0.8, random_state=1)
    if not whole:
        trials = trials[~((trials["a"] == 1) & (trials["b"] == "x") & (trials["c"] == 3))]
    found = designed(trials, list(SMALL))
    assert found.sums == {3: "III", 2: "II"}[kind]
    frame = trials.assign(y=np.log(trials["t_iter"]))
    formula = "y ~ C(replicate, Sum) + (C(a, Sum) + C(b, Sum) + C(c, Sum)) ** 2"
    theirs = anova_lm(ols(formula, frame).fit(), typ=kind)
    for ours, name in (("a", "C(a, Sum)"), ("c", "C(c, Sum)"), ("a × c", "C(a, Sum):C(c, Sum)")):
        assert row(found, ours).sum_squares == pytest.approx(theirs.loc[name, "sum_sq"], rel=1e-8)
        assert row(found, ours).df == theirs.loc[name, "df"]


def test_pure_error_is_that_of_the_model_with_every_cell(trials_of: Trials) -> None:
    trials = trials_of(SMALL, 4, noise=0.2, seed=5).sample(frac=0.8, random_state=2)
    found = designed(trials, list(SMALL))
    frame = trials.assign(y=np.log(trials["t_iter"]))
    full = ols("y ~ C(replicate) + C(a) * C(b) * C(c)", frame).fit()
    assert row(found, "residual").df == full.df_resid == found.error.df
    assert found.error.spread == pytest.approx(math.sqrt(full.mse_resid))


def test_holms_correction_agrees_with_statsmodels(trials_of: Trials) -> None:
    lines = [one for one in anova(trials_of(UFRGS, noise=0.5), list(UFRGS)) if one.p is not None]
    theirs = multipletests([one.p for one in lines], method="holm")[1]
    assert [one.holm for one in lines] == pytest.approx(list(theirs))


# Blocks, scale, replicates.


def test_blocks_are_taken_out(trials_of: Trials) -> None:
    calm, shifted = (designed(trials_of(SMALL, noise=0.02, blocks=by, seed=4), list(SMALL)) for by in (0.0, 1.0))
    assert shifted.error.spread == pytest.approx(calm.error.spread)
    assert [one.high for one in shifted.main] == pytest.approx([one.high for one in calm.main])
    assert row(shifted, "block").share > 0.5


def test_additive_noise_is_analysed_in_seconds(trials_of: Trials) -> None:
    seconds, right, together = 0, 0, 0
    for seed in range(20):
        trials = trials_of({"a": [1, 2], "b": [1, 2, 8]}, 12, law=lambda at: float(at["a"] + at["b"]))
        trials["t_iter"] += 0.2 * np.random.default_rng(seed).standard_normal(len(trials))
        found = designed(trials, ["a", "b"])
        seconds += found.scale.name == "seconds"
        right += found.main[0].low < (2 + 11 / 3) / (1 + 11 / 3) < found.main[0].high
        together += any(one.differs for one in found.interactions)
    assert (seconds, right >= 18) == (20, True)
    assert together <= 2  # the law adds, so on its own scale nothing acts together


def test_multiplied_noise_is_analysed_as_ratios(trials_of: Trials) -> None:
    found = designed(trials_of(UFRGS, noise=0.1), list(UFRGS))
    assert found.scale.name == "log"
    assert found.scale.low is not None
    assert found.scale.low <= 0
    assert "multiply" in found.scale.why


def test_one_replicate_pools_interactions_and_says_so(trials_of: Trials) -> None:
    found = designed(trials_of(UFRGS, 1, noise=0.02), list(UFRGS))
    assert (found.error.kind, found.error.df) == ("pooled", 36 - 20)
    assert "add replicates" in found.error.why
    few = designed(trials_of({"a": [1, 2], "b": [1, 2], "c": [1, 2]}, 1, noise=0.02, law=null), ["a", "b", "c"])
    assert few.error.df >= 4
    assert any("Left out of the model" in note for note in few.notes)


def test_nothing_is_claimed_where_nothing_estimates_the_noise(trials_of: Trials) -> None:
    found = designed(trials_of({"a": [1, 2, 3]}, 1, law=lambda at: float(at["a"])), ["a"])
    assert found.error.kind == "none"
    assert found.main == []
    assert [(mean.seconds, mean.low) for mean in found.means] == [(pytest.approx(x), None) for x in (1, 2, 3)]


def test_a_random_design_is_judged_by_its_configurations() -> None:
    """What the model leaves out shifts all replicates of a configuration alike: they are no independent evidence."""
    claimed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        cells = pd.DataFrame({name: rng.choice(list("uvwx"), 60) for name in "abcd"})
        cells["t_iter"] = np.exp(0.3 * rng.standard_normal(60))  # the configuration itself, no main effect
        trials = pd.concat([cells.assign(replicate=at) for at in range(3)], ignore_index=True)
        trials["t_iter"] *= np.exp(0.01 * rng.standard_normal(len(trials)))
        trials = trials.assign(status="ok", started=range(len(trials)), trial=[str(at) for at in range(len(trials))])
        found = designed(trials, list("abcd"))
        assert found.error.kind == "configurations"
        claimed += any(one.differs for one in found.main)
    assert claimed <= 6


# Missing and broken runs.


def broken(trials: pd.DataFrame, **where: Any) -> pd.DataFrame:
    hit = np.logical_and.reduce([trials[name] == level for name, level in where.items()])
    return trials.assign(
        status=np.where(hit, "out-of-memory", "ok"),
        reason=np.where(hit, "no room for the batch\nand more", ""),
        t_iter=trials["t_iter"].where(~hit),
    )


def test_a_missing_trial_costs_its_own_information_only(trials_of: Trials, law: Law) -> None:
    trials = broken(trials_of(UFRGS), trial="0-0.002-sync-32-1")
    found = designed(trials, list(UFRGS))
    assert found.broken == ("0-0.002-sync-32-1 (out-of-memory: no room for the batch)",)
    assert (found.missing, found.inestimable, found.trials) == ([], [], 179)
    assert row(found, "residual").df == 180 - 1 - 36 - 4


def test_empty_cells_and_what_they_cost_are_named(trials_of: Trials) -> None:
    found = designed(broken(trials_of(UFRGS, noise=0.01), strategy="sync", workers=3), list(UFRGS))
    assert len(found.missing) == 6
    assert ("strategy", "sync") in found.missing[0].levels
    assert {(cell.failed, cell.why) for cell in found.missing} == {(5, "out-of-memory")}
    (lost,) = found.inestimable
    assert (lost.term, lost.why) == ("strategy × workers", "no good trial has strategy sync with workers 3")
    assert not any(one.factors == ("strategy", "workers") for one in found.interactions)
    assert found.sums == "II"


def test_unsupported_trials_have_not_gone_wrong(trials_of: Trials) -> None:
    trials = trials_of(SMALL, 3, noise=0.01)
    hit = (trials["a"] == 1) & (trials["b"] == "x") & (trials["c"] == 1)
    trials = trials.assign(status=np.where(hit, "unsupported", "ok"), reason="", t_iter=trials["t_iter"].where(~hit))
    found = designed(trials, list(SMALL))
    (cell,) = found.missing
    assert (found.broken, cell.failed, cell.why) == ((), 0, "unsupported")
    told = " ".join(describe(found))
    assert "1 combination has no good trial (unsupported): a 1, b x, c 1." in told
    assert "did not end well" not in told


def test_a_cell_that_was_never_run_is_told_from_one_that_failed(trials_of: Trials) -> None:
    trials = trials_of(SMALL, 3, noise=0.01)
    trials = trials[~((trials["a"] == 1) & (trials["b"] == "x") & (trials["c"] == 1))]
    (cell,) = designed(trials, list(SMALL)).missing
    assert (cell.levels, cell.why) == ((("a", 1), ("b", "x"), ("c", 1)), "never run")


def test_a_factor_confounded_with_another_is_named(trials_of: Trials) -> None:
    trials = trials_of({"framework": ["jax", "torch"], "batch_size": [1, 2]}, noise=0.01)
    trials["environment"] = trials["framework"].map({"jax": "new", "torch": "old"})
    found = designed(trials, ["framework", "environment", "batch_size"])
    (lost, *_) = found.inestimable
    assert (lost.term, lost.why) == ("environment", "in these trials it cannot be told from framework")


def test_an_aliased_interaction_of_a_half_fraction_is_named(trials_of: Trials) -> None:
    signs = {"a": [-1, 1], "b": [-1, 1], "c": [-1, 1], "d": [-1, 1]}
    whole = trials_of(signs, 3, noise=0.01)
    half = whole[whole["a"] * whole["b"] * whole["c"] * whole["d"] == 1]
    lost = {one.term: one.why for one in designed(half, list(signs)).inestimable}
    assert len(lost) == 3  # ab = cd, ac = bd, ad = bc
    assert all(" × " in why for why in lost.values())


def test_no_good_trial_at_all_is_no_error(trials_of: Trials) -> None:
    found = designed(broken(trials_of(SMALL), replicate=0).query("replicate == 0"), list(SMALL))
    assert (found.main, found.anova, found.trials) == ([], [], 0)
    assert len(found.broken) == 12
    assert designed(pd.DataFrame([]), list(SMALL)).main == []


# Looks at the residuals.


def check(found: Designed, name: str) -> Any:
    (made,) = (one for one in found.checks if one.name == name)
    return made


def test_clean_residuals_rarely_alarm(trials_of: Trials) -> None:
    alarms = 0
    for seed in range(60):
        found = designed(trials_of(SMALL, 4, noise=0.1, seed=seed), list(SMALL))
        assert len(found.checks) == 4
        alarms += any(not one.fine for one in found.checks)
    assert alarms <= 6


def test_an_outlier_is_named_by_its_trial(trials_of: Trials) -> None:
    trials = trials_of(SMALL, 4, noise=0.05, seed=2)
    trials.loc[17, "t_iter"] *= 2
    said = check(designed(trials, list(SMALL)), "outliers")
    assert (said.fine, said.trials) == (False, (trials.loc[17, "trial"],))
    assert trials.loc[17, "trial"] in said.sentence


def test_a_tail_of_slow_trials_is_seen(trials_of: Trials) -> None:
    trials = trials_of(UFRGS, seed=3)
    trials["t_iter"] *= np.exp(0.05 * np.random.default_rng(1).standard_exponential(len(trials)))
    assert "slow trials" in check(designed(trials, list(UFRGS)), "normality").sentence


def test_a_noisy_level_is_named(trials_of: Trials) -> None:
    trials = trials_of(UFRGS, seed=3)
    spread = np.where(trials["workers"] == 3, 0.15, 0.03)
    trials["t_iter"] *= np.exp(spread * np.random.default_rng(1).standard_normal(len(trials)))
    said = check(designed(trials, list(UFRGS)), "equal variance")
    assert not said.fine
    assert "workers 3" in said.sentence


def test_noise_that_lasts_is_seen_in_the_order_of_running(trials_of: Trials) -> None:
    trials = trials_of(UFRGS, seed=3)
    rng = np.random.default_rng(1)
    lasting = np.zeros(len(trials))
    for at in range(1, len(trials)):
        lasting[at] = 0.8 * lasting[at - 1] + rng.standard_normal()
    trials["t_iter"] *= np.exp(0.05 * lasting[trials["started"].astype(int)])
    assert "one after another" in check(designed(trials, list(UFRGS)), "independence").sentence


def test_a_machine_that_slows_down_is_seen(trials_of: Trials) -> None:
    trials = trials_of(UFRGS, noise=0.02, seed=3)
    trials["t_iter"] *= np.exp(0.1 * trials["started"] / len(trials))
    assert "became slower" in check(designed(trials, list(UFRGS)), "independence").sentence


# Many factors, odd factors, doors of the module.


def test_many_factors_keep_the_interactions_of_the_strong_ones() -> None:
    rng = np.random.default_rng(0)
    names = [f"f{at}" for at in range(10)]
    trials = pd.DataFrame({name: rng.integers(0, 2, 2000) for name in names})
    logs = trials["f3"] + trials["f7"] + trials["f3"] * trials["f7"] + 0.1 * rng.standard_normal(2000)
    trials = trials.assign(t_iter=np.exp(logs), replicate=0, status="ok", started=range(2000), trial=range(2000))
    found = designed(trials, names)
    assert len({one.factors for one in found.interactions}) == 21
    sure = [one for one in found.interactions if one.differs]
    assert [one.factors for one in sure] == [("f3", "f7")]
    assert sure[0].low < math.e < sure[0].high
    assert any("Left out of the model" in note for note in found.notes)


def test_a_number_with_many_levels_is_a_slope() -> None:
    rng = np.random.default_rng(0)
    trials = pd.DataFrame({"filters": rng.uniform(4, 64, 200), "padding": rng.choice(["same", "valid"], 200)})
    trials["t_iter"] = trials["filters"] ** 1.5 * np.exp(0.1 * rng.standard_normal(200))
    trials = trials.assign(replicate=0, status="ok", started=range(200), trial=range(200))
    found = designed(trials, ["filters", "padding"])
    assert [one.factor for one in found.main] == ["padding", "filters"]
    largest = found.main[1]  # for the smallest
    assert (len(str(largest.level)), largest.differs) == (5, True)
    assert largest.low < (largest.level / largest.reference) ** 1.5 < largest.high
    (trend,) = found.trends
    assert trend.low < 1.5 < trend.high and trend.differs
    assert row(found, "filters").df == 1


def test_a_factor_without_a_value_in_some_trials_is_left_out_and_named(trials_of: Trials) -> None:
    trials = trials_of(SMALL, 3, noise=0.01)
    trials["c"] = trials["c"].where(trials["a"] == 1)
    found = designed(trials, list(SMALL))
    assert found.factors == ("a", "b")
    assert any(note.startswith("c has no value") for note in found.notes)


def test_the_parts_are_those_of_the_whole(trials_of: Trials) -> None:
    trials = trials_of(SMALL, noise=0.05)
    found = designed(trials, list(SMALL))
    assert main_effects(trials, list(SMALL)) == found.main
    assert interactions(trials, list(SMALL)) == found.interactions
    assert anova(trials, list(SMALL)) == found.anova
    assert residual_checks(trials, list(SMALL)) == found.checks


def test_the_unit_of_time_does_not_matter(trials_of: Trials) -> None:
    trials = trials_of(SMALL, noise=0.05)
    seconds, micros = (designed(trials.assign(t_iter=trials["t_iter"] * by), list(SMALL)) for by in (1.0, 1e6))
    assert [one.low for one in seconds.main] == pytest.approx([one.low for one in micros.main])
    assert seconds.scale == micros.scale

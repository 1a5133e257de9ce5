"""The claims: on tables whose truth is known, each verdict is the right one, and chance alone hardly ever decides."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from steplab.sources.claim import Claim, above, below, mean_ratio, resampled
from steplab.sources.modelling import PER_LEVEL, REFERENCE
from steplab.sources.reproductions import (
    alexnet_resnet18_roofline,
    generic_model,
    inference_engines,
    resattnet3d,
    ssgd_frameworks,
    tf_sync_vs_accumulate,
    torch_vs_tensorflow,
)
from steplab.sources.source import Measured

CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "not decidable here"
BLOCKS = (1, 2, 3, 4)


def noisy(rng: np.random.Generator, value: float, noise: float = 0.03) -> float:
    return float(value * np.exp(rng.normal(0, noise)))


def scaling_trials(efficiency: dict[str, float], blocks: tuple[int, ...] = BLOCKS, noise: float = 0.03) -> pd.DataFrame:
    """Frameworks whose step of several workers takes 1/efficiency as long as that of one; a block may be slow."""
    rng = np.random.default_rng(1)
    rows = []
    for block in blocks:
        slow = rng.uniform(0.8, 1.5)
        for framework, network, workers in product(efficiency, ("lenet5", "mlp"), (1, 2, 3)):
            step = slow * (1.0 if workers == 1 else 1 / efficiency[framework])
            told = {"framework": framework, "network": network, "workers": workers, "batch_size": 64}
            rows.append({**told, "replicate": block, "t_iter": noisy(rng, step, noise)})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("efficiency", "verdict"),
    [
        ({"tensorflow": 0.5, "mxnet": 0.8, "chainer": 0.9}, CONFIRMED),
        ({"tensorflow": 0.9, "mxnet": 0.5, "chainer": 0.95}, REFUTED),
        ({"tensorflow": 0.8, "mxnet": 0.8, "chainer": 0.9}, UNDECIDED),
    ],
)
def test_whether_tensorflow_scales_worse(efficiency: dict[str, float], verdict: str) -> None:
    claim = ssgd_frameworks.tensorflow_scales_worse({"trials": scaling_trials(efficiency)})
    assert claim.verdict == verdict
    nearer = max(efficiency["tensorflow"] / efficiency[other] for other in ("mxnet", "chainer"))
    assert claim.estimate is not None
    assert claim.estimate.low < nearer < claim.estimate.high


def test_without_replicates_nothing_is_decided() -> None:
    trials = scaling_trials({"tensorflow": 0.1, "mxnet": 0.9, "chainer": 0.9}, blocks=(1,))
    claim = ssgd_frameworks.tensorflow_scales_worse({"trials": trials})
    assert claim.verdict == UNDECIDED
    assert claim.estimate is None
    assert "replicates" in claim.sentence


@pytest.mark.parametrize(("kept", "verdict"), [(0.9, CONFIRMED), (0.1, REFUTED), (0.5, UNDECIDED)])
def test_where_imbalance_comes_from(kept: float, verdict: str) -> None:
    rng = np.random.default_rng(2)
    shares = np.clip(rng.normal(kept, 0.1, 24), 0, 1)
    uneven = pd.DataFrame({"lif_iteration": 1.2, "lif_persistent": 1 + 0.2 * shares})
    balanced = pd.DataFrame({"lif_iteration": [1.001] * 9, "lif_persistent": 1.0})
    claim = ssgd_frameworks.imbalance_comes_from_slow_ranks({"imbalance": pd.concat([uneven, balanced])})
    assert claim.verdict == verdict
    assert claim.estimate is not None
    assert claim.estimate.n == 24


def imbalance_of(times: np.ndarray) -> pd.Series:
    """The factors of one trial whose ranks (columns) computed for so long in each iteration (row)."""
    rows = [
        {"trial": "a", "rank": rank, "iteration": number, "mode": "phased", "warmup": False, "t_f": time, "t_b": 0.0}
        for number, ranks in enumerate(times)
        for rank, time in enumerate(ranks)
    ]
    study = Measured(pd.DataFrame(), (), pa.Table.from_pylist(rows), dict)
    return ssgd_frameworks.imbalance(study).iloc[0]


def test_a_rank_that_stays_slow_is_told_from_chance() -> None:
    rng = np.random.default_rng(11)
    slow = imbalance_of(np.column_stack([np.full(40, 1.0), np.full(40, 1.5)]))
    assert slow["lif_iteration"] == pytest.approx(2 * 1.5 / 2.5)
    assert slow["lif_persistent"] == pytest.approx(slow["lif_iteration"])
    chance = imbalance_of(np.where(rng.random(400)[:, None] < 0.5, [1.0, 1.5], [1.5, 1.0]))
    assert chance["lif_iteration"] == pytest.approx(2 * 1.5 / 2.5)
    assert chance["lif_persistent"] < 1.03  # a mean of 400 draws of ±0.2 lies within 0.03 of none


def test_a_single_stall_makes_no_rank_slow() -> None:
    times = np.ones((20, 2))
    times[3, 0] = 100.0
    stalled = imbalance_of(times)
    assert stalled["lif_mean"] > 1.5
    assert 1.0 <= stalled["lif_persistent"] <= stalled["lif_iteration"] < 1.06


def parameters(shift: float, l2_shift: float, own: float) -> pd.DataFrame:
    """Ten seeds: all levels of a factor move together by `shift` (with L2 `l2_shift`), each by `own`."""
    rng = np.random.default_rng(3)
    rows = []
    for (penalty, size), seed in product((("none", shift), ("l2", l2_shift)), range(10)):
        for factor in ("padding", "activation", "dataset", "optimizer"):
            moved = rng.normal(0, size)
            levels = [1 + moved + rng.normal(0, own) for _ in range(3)]
            told = {"framework": "torch", "penalty": penalty, "seed": seed, "symbol": "a"}
            for number, value in enumerate(levels):
                rows.append({**told, "parameter": f"{factor}={number}", "coding": PER_LEVEL, "typical": value})
                if number:
                    value -= levels[0]
                    rows.append({**told, "parameter": f"{factor}={number}", "coding": REFERENCE, "typical": value})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("table", "by_penalty", "by_coding"),
    [
        (parameters(1.0, 0.1, 0.02), CONFIRMED, CONFIRMED),  # levels shift together, and the penalty stops that
        (parameters(1.0, 1.0, 0.02), REFUTED, CONFIRMED),  # it does not
        (parameters(0.001, 0.001, 0.5), REFUTED, REFUTED),  # every level moves by itself
    ],
)
def test_what_makes_coefficients_stable(table: pd.DataFrame, by_penalty: str, by_coding: str) -> None:
    assert generic_model.l2_is_stable({"parameters": table}).verdict == by_penalty
    assert generic_model.coding_is_stable({"parameters": table}).verdict == by_coding


def predictions(generic: float, forest: float, rows: int) -> pd.DataFrame:
    """Held-out rows whose relative errors are normal with these deviations."""
    rng = np.random.default_rng(4)
    measured = rng.lognormal(0, 1, rows)
    parts = [
        pd.DataFrame({"framework": "torch", "model": model, "trial": np.arange(rows), "measured": measured,
                      "predicted": measured * (1 + rng.normal(0, error, rows))})
        for model, error in (("generic", generic), ("random-forest", forest))
    ]  # fmt: skip
    return pd.concat(parts)


@pytest.mark.parametrize(
    ("generic", "forest", "rows", "verdict"),
    [(0.05, 0.07, 400, CONFIRMED), (0.10, 0.07, 400, REFUTED), (0.077, 0.07, 100, UNDECIDED)],
)
def test_whether_the_generic_model_is_as_good_as_the_forest(
    generic: float, forest: float, rows: int, verdict: str
) -> None:
    tables = {"errors": predictions(generic, forest, rows)}
    claims = [generic_model.as_good_as_forest(tables), resattnet3d.as_good_as_forest(tables)]
    assert [claim.verdict for claim in claims] == [verdict, verdict]
    assert claims[0].estimate is not None
    assert claims[0].estimate.low < generic / forest < claims[0].estimate.high


def test_a_model_that_predicts_nothing_decides_nothing() -> None:
    errors = predictions(0.05, 0.07, 40)
    errors.loc[errors["model"] == "generic", "predicted"] = np.nan
    assert generic_model.as_good_as_forest({"errors": errors}).verdict == UNDECIDED


def engines(velox: float, noise: float) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    speed = {"velox": velox, "torch": 1.0, "tensorflow": 1.3}
    cells = product(BLOCKS, speed, (1, 10, 100), (1, 2))
    rows = [
        {"replicate": block, "framework": framework, "batch_size": samples, "threads": threads, "padding": "valid",
         "t_iter": noisy(rng, samples * speed[framework] / threads, noise)}
        for block, framework, samples, threads in cells
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("velox", "noise", "verdict"), [(0.5, 0.05, CONFIRMED), (30.0, 0.05, REFUTED), (1.0, 0.3, UNDECIDED)]
)
def test_whether_velox_is_faster(velox: float, noise: float, verdict: str) -> None:
    assert inference_engines.velox_is_faster({"trials": engines(velox, noise)}).verdict == verdict
    assert inference_engines.torch_is_faster({"trials": engines(1.0, 0.05)}).verdict == CONFIRMED


def accumulating(sync: float, accumulate: float) -> pd.DataFrame:
    """Efficiencies of two workers by strategy; later blocks are slower, which must cancel."""
    rng = np.random.default_rng(6)
    by = {"sync": sync, "accumulate:4": accumulate}
    rows = [
        {"replicate": block, "strategy": strategy, "network": "resnet50", "batch_size": batch, "workers": workers,
         "t_iter": noisy(rng, block * batch * (1.0 if workers == 1 else 1 / by[strategy]))}
        for block, strategy, batch, workers in product(BLOCKS, by, (8, 32), (1, 2))
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("sync", "accumulate", "verdict"),
    [
        (0.4, 0.8, CONFIRMED),
        (0.3, 0.4, REFUTED),  # better than sync, but two workers still do less than one
        (0.8, 0.6, REFUTED),  # it scales, but less than without
        (0.4, 0.5, UNDECIDED),  # two workers do as much as one
    ],
)
def test_whether_accumulating_brings_scaling_back(sync: float, accumulate: float, verdict: str) -> None:
    claim = tf_sync_vs_accumulate.accumulating_brings_scaling_back({"trials": accumulating(sync, accumulate)})
    assert claim.verdict == verdict
    assert claim.estimate is not None
    assert claim.estimate.low < 2 * accumulate < claim.estimate.high


def bounds(alexnet: float, resnet: float) -> dict[str, pd.DataFrame]:
    """Trials of both networks with these shares of layers' time below the bandwidth roof; of one image, all of it."""
    rng = np.random.default_rng(7)
    trials, rows = [], []
    for block, (network, share), batch in product(BLOCKS, (("alexnet", alexnet), ("resnet18", resnet)), (1, 8)):
        name = f"{network}{block}-{batch}"
        below_roof = float(np.clip(rng.normal(share, 0.02), 0, 1)) if batch > 1 else 1.0
        told = {"trial": name, "network": network, "replicate": block, "batch_size": batch}
        trials.append({**told, "threads": 1, "workers": 1})
        for bound, seconds in (("bandwidth", below_roof), ("compute", 1 - below_roof)):
            rows.append({"trial": name, "bound": bound, "seconds": seconds, "at_roof_s": seconds / 2})
    return {"trials": pd.DataFrame(trials), "bounds": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("alexnet", "resnet", "verdict"),
    [(0.8, 0.2, CONFIRMED), (0.3, 0.2, REFUTED), (0.8, 0.7, REFUTED), (0.8, 0.5, UNDECIDED)],
)
def test_what_bounds_the_networks(alexnet: float, resnet: float, verdict: str) -> None:
    assert alexnet_resnet18_roofline.alexnet_by_bandwidth(bounds(alexnet, resnet)).verdict == verdict


def trainings(torch: float, loading: float) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    speed = {"torch": torch, "tensorflow": 1.0}
    rows = [
        {"replicate": block, "framework": framework, "dataset": "cifar100", "workers": 1, "loader_workers": loaders,
         "train_s": noisy(rng, speed[framework] * (loading if loaders else 1.0))}
        for block, framework, loaders in product(BLOCKS, speed, (0, 4))
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("ratio", "verdict"), [(0.7, CONFIRMED), (1.4, REFUTED), (1.0, UNDECIDED)])
def test_which_framework_and_which_loader_trains_faster(ratio: float, verdict: str) -> None:
    assert torch_vs_tensorflow.torch_is_faster({"trials": trainings(ratio, 1.0)}).verdict == verdict
    assert torch_vs_tensorflow.loaders_help({"trials": trainings(1.0, ratio)}).verdict == verdict
    iterations = trainings(ratio, 1.0).rename(columns={"train_s": "t_iter"})
    assert torch_vs_tensorflow.torch_steps_are_shorter({"trials": iterations}).verdict == verdict


def test_a_claim_says_its_interval() -> None:
    claim: Claim = inference_engines.velox_is_faster({"trials": engines(30.0, 0.05)})
    assert str(claim.estimate) in claim.sentence
    assert claim.sentence.startswith("No: ")


def test_chance_alone_decides_in_one_of_twenty_at_most() -> None:
    """A true ratio of 1 is confirmed or refuted by chance; 5 % of 1000 draws, and three standard errors beyond."""
    rng = np.random.default_rng(9)
    decided = 0
    for _ in range(1000):
        ratio = mean_ratio(rng.normal(0, 0.1, 4))
        assert ratio is not None
        decided += above(ratio, 1.0) != UNDECIDED
        assert (above(ratio, 1.0) == CONFIRMED) == (below(ratio, 1.0) == REFUTED)
    assert decided <= 50 + 3 * np.sqrt(1000 * 0.05 * 0.95)


def test_a_resampled_mean_covers_the_truth() -> None:
    rng = np.random.default_rng(10)
    covered = 0
    for _ in range(200):
        mean = resampled(rng.normal(0.5, 0.1, 24))
        assert mean is not None
        covered += mean.low <= 0.5 <= mean.high
    assert covered >= 200 * 0.95 - 4 * np.sqrt(200 * 0.05 * 0.95)  # percentile intervals of 24 values are a bit narrow

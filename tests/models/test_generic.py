import json

import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import ModelError, NotEnoughData
from steplab.models import model_from_document
from steplab.models.generic import Generic
from steplab.models.solvers.parameter_intervals import bread, covariance, evidence, slopes

TRUTH = {
    ("filters", "a"): 0.5, ("filters", "p"): 0.8, ("kernel", "a"): 0.2, ("kernel", "p"): 2.0,
    ("base", "b"): 3.0, ("padding=valid", "d"): -2.0, ("batch_size", "q"): 0.6, ("workers", "q"): -0.9,
    ("constant", "C"): 2.0,
}  # fmt: skip


def values(model):
    return {(p.name, p.symbol): p for p in model.parameters()}


@pytest.mark.parametrize("loss", ["absolute", "relative", "squared"])
def test_recovers_the_law_of_exact_data(make_table, roles, loss):
    X, y = make_table(noise=0)
    found = values(Generic(**roles, loss=loss).fit(X, y))
    for key, expected in TRUTH.items():
        assert found[key].value == pytest.approx(expected, rel=2e-2), key


def test_intervals_of_identified_parameters_hold_the_truth(make_table, roles):
    held = []
    for seed in range(8):
        X, y = make_table(noise=0.05, seed=seed)
        found = values(Generic(**roles).fit(X, y))
        held += [p.low <= TRUTH[key] <= p.high for key, p in found.items() if p.identified]
    assert len(held) > 30
    assert np.mean(held) >= 0.88


def test_every_seed_finds_the_same_identified_parameters(make_table, roles):
    X, y = make_table(noise=0.05)
    first, *others = (values(Generic(**roles, seed=seed).fit(X, y)) for seed in range(3))
    for other in others:
        for key, p in first.items():
            if p.identified:
                assert other[key].value == pytest.approx(p.value, rel=1e-3)


def test_a_negative_difference_from_the_reference_level_keeps_the_sum_positive(make_table, roles):
    X, y = make_table()
    model = Generic(**roles).fit(X, y)
    assert model.expression_.levels["padding"]["valid"] < 0
    assert model.expression_.base + model.expression_.levels["padding"]["valid"] >= -1e-12


def test_two_values_of_a_factor_do_not_determine_a_power(make_table, roles):
    X, y = make_table()
    found = values(Generic(**roles).fit(X[X["kernel"] <= 3], y[X["kernel"] <= 3]))
    assert not found["kernel", "p"].identified
    assert abs(found["kernel", "p"].value) == 1


def test_a_constant_factor_is_not_identified_and_does_no_harm(make_table, roles):
    X, y = make_table()
    whole = Generic(**roles).fit(X, y)
    wider = Generic(**{**roles, "intrinsic": (*roles["intrinsic"], "depth")}).fit(X.assign(depth=5.0), y)
    assert not values(wider)["depth", "p"].identified
    np.testing.assert_allclose(wider.predict(X.assign(depth=5.0)), whole.predict(X), rtol=1e-6)


def test_collinear_factors_are_not_identified(make_table, roles):
    X, y = make_table()
    twin = X.assign(twin=X["filters"] * 3)
    found = values(Generic(**{**roles, "intrinsic": ("filters", "kernel", "twin")}).fit(twin, y))
    assert not (found["filters", "a"].identified and found["twin", "a"].identified)


def test_a_factor_with_zeros_keeps_a_positive_power(make_table, roles):
    X, y = make_table()
    zeros = X.assign(filters=np.where(X["filters"] == 4, 0.0, X["filters"]))
    model = Generic(**roles).fit(zeros, y)
    assert model.expression_.power["filters"] > 0
    assert np.isfinite(model.predict(zeros)).all()


def test_negative_factors_are_refused_in_one_sentence(make_table, roles):
    X, y = make_table()
    with pytest.raises(ModelError, match="column 'filters': Negative values in data: they have no powers"):
        Generic(**roles).fit(X.assign(filters=-X["filters"]), y)


def test_the_relative_loss_refuses_zeros(make_table, roles):
    X, y = make_table()
    with pytest.raises(ModelError, match="target of 0"):
        Generic(**roles, loss="relative").fit(X, y.where(y.index != 3, 0.0))


def test_the_absolute_loss_shrugs_off_outliers(make_table, roles):
    X, y = make_table()
    wild = y.where(np.arange(len(y)) % 20 != 0, y * 30)
    clean = np.arange(len(y)) % 20 != 0
    predicted = Generic(**roles).fit(X, wild).predict(X[clean])
    assert np.mean(np.abs(predicted / y[clean] - 1)) < 0.03


def test_too_few_rows_are_refused(make_table, roles):
    X, y = make_table(rows=8)
    with pytest.raises(NotEnoughData, match="needs at least"):
        Generic(**roles).fit(X, y)


def test_without_roles_they_are_inferred(make_table):
    X, y = make_table()
    model = Generic().fit(X, y)
    assert model.roles_.extrinsic == ("batch_size", "workers")
    assert model.roles_.categorical == ("padding",)


def test_only_extrinsic_factors_make_a_power_law():
    workers = np.repeat([1.0, 2.0, 4.0, 8.0], 5)
    model = Generic(extrinsic=("workers",)).fit(pd.DataFrame({"workers": workers}), 3 * workers**-0.8 + 1)
    assert model.expression_.scale["workers"] == pytest.approx(-0.8, rel=1e-2)


def test_penalties_shrink_powers(make_table, roles):
    X, y = make_table(noise=0.1)

    def size(penalty):
        return sum(abs(p.value) for p in Generic(**roles, penalty=penalty).fit(X, y).parameters() if p.symbol in "pq")

    assert size("l2:0.1") < size("l2:0.001") <= size("none") * 1.01
    assert size("l1:0.1") < size("none")


def test_powers_can_be_penalised_alone(make_table, roles):
    X, y = make_table()
    model = Generic(**roles, penalty="l2:coef=0,power=0.5").fit(X, y)
    assert (model.penalty_.coef, model.penalty_.power) == (0, 0.5)


def test_cross_validation_chooses_a_weak_penalty_for_clean_data(make_table, roles):
    X, y = make_table(rows=120)
    assert Generic(**roles, penalty="l2:cv").fit(X, y).penalty_.coef <= 1e-3


def test_the_interval_covers_new_rows(make_table, roles):
    X, y = make_table(rows=250, noise=0.08, seed=1)
    new, measured = make_table(rows=2000, noise=0.08, seed=2)
    low, high = Generic(**roles).fit(X, y).predict_interval(new, 0.9)
    assert 0.85 <= np.mean((measured >= low) & (measured <= high)) <= 0.95


def test_replicates_widen_the_intervals_of_parameters(make_table, roles):
    X, y = make_table(rows=100, noise=0)
    rng = np.random.default_rng(0)
    run = np.arange(100)
    shared = y * (1 + 0.1 * rng.standard_normal(100))
    X4, y4, groups = pd.concat([X] * 4), pd.concat([shared] * 4), np.tile(run, 4)
    alone, together = (values(Generic(**roles).fit(X4, y4, g))["batch_size", "q"] for g in (None, groups))
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_the_cost_is_not_above_that_of_differential_evolution(make_table, roles):
    from steplab.models.generic_de import GenericDE

    X, y = make_table(rows=60)
    evolved = GenericDE(**roles, seeds=1, maxiter=60, popsize=6).fit(X, y)
    assert np.abs(Generic(**roles).fit(X, y).predict(X) - y).mean() <= np.abs(evolved.predict(X) - y).mean()


def scaled_by_workers(law, workers=(1, 2, 4, 8)):
    rng = np.random.default_rng(0)
    X = pd.DataFrame([(n, b) for n in workers for b in (32.0, 64.0, 128.0, 256.0) for _ in range(2)])
    X.columns = ["workers", "batch_size"]
    y = law(X["workers"], X["batch_size"]) * np.exp(0.01 * rng.standard_normal(len(X)))
    return X, pd.Series(y, name="t_iter")


def test_the_step_from_one_worker_to_several_is_a_term_and_no_power():
    X, y = scaled_by_workers(lambda n, b: 0.01 + 2e-4 * b + 0.03 * (n > 1))
    model = Generic(extrinsic=("workers", "batch_size")).fit(X, y)
    step = next(p for p in model.parameters() if p.name == "workers > 1")
    assert step.value == pytest.approx(0.03, rel=0.1) and step.identified
    far = pd.DataFrame({"workers": [64.0], "batch_size": [64.0]})
    assert model.predict(far)[0] == pytest.approx(0.0528, rel=0.15)


def test_the_power_of_an_extrinsic_factor_with_two_values_is_whole_and_never_identified():
    X, y = scaled_by_workers(lambda n, b: 0.01 + 4e-4 * b / n, workers=(1, 2))
    model = Generic(extrinsic=("workers", "batch_size")).fit(X, y)
    power = next(p for p in model.parameters() if (p.name, p.symbol) == ("workers", "q"))
    assert power.value == -1.0 and not power.identified


def test_a_base_is_there_beside_intrinsic_factors():
    X, y = scaled_by_workers(lambda n, b: (0.05 + 2e-4 * b) / n)
    model = Generic(intrinsic="batch_size", extrinsic="workers").fit(X, y)
    assert model.expression_.base == pytest.approx(0.05, rel=0.15)
    assert Generic(intrinsic="batch_size", extrinsic="workers", form="source").fit(X, y).expression_.base == 0


def test_the_form_of_the_source_has_no_terms_of_counts():
    X, y = scaled_by_workers(lambda n, b: 0.01 + 2e-4 * b + 0.03 * (n > 1))
    model = Generic(extrinsic=("workers", "batch_size"), form="source").fit(X, y)
    assert not model.expression_.steps and not model.expression_.logs
    with pytest.raises(ModelError, match="form 'other' is unknown"):
        Generic(extrinsic=("workers", "batch_size"), form="other").fit(X, y)


def test_weak_priors_hold_powers_that_few_noisy_rows_do_not_tell():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"workers": np.repeat([6.0, 7.0, 8.0], 4), "batch_size": np.tile([8.0, 16.0, 32.0, 64.0], 3)})
    y = pd.Series((0.01 + 1e-3 * X["batch_size"]) * np.exp(0.1 * rng.standard_normal(12)), name="t")
    held, free = (Generic(extrinsic=("workers", "batch_size"), form=form).fit(X, y) for form in ("steps", "source"))
    powers = [abs(model.expression_.scale["workers"]) for model in (held, free)]
    assert powers[0] < powers[1]


def test_more_terms_than_rows_are_no_failure_of_the_judgement():
    X, y = scaled_by_workers(lambda n, b: 0.01 + 2e-4 * b + 0.03 * (n > 1))
    few = [0, 9, 18, 27, 4, 13, 22, 31]
    model = Generic(extrinsic=("workers", "batch_size")).fit(X.iloc[few], y.iloc[few])
    assert np.isfinite(model.predict_interval(X)[0]).all()
    columns = {c: X[c].to_numpy()[:2] for c in X}
    made = slopes(model.expression_, columns, model.expression_.predict(columns))
    jacobian = np.column_stack([slope.column for slope in made])
    known = evidence(jacobian, np.ones(2), np.array([1.0, 1.1]), np.ones(2), squared=True)
    assert covariance(known, None, bread(known)).shape == (len(made), len(made)) and len(made) > 2


def of_nodes(nodes, per_node=(1, 2, 3, 4), noise=0.0):
    """A cluster whose steps wait for the workers of a node, which share its network card."""
    cells = [(k, k * n, b) for k in nodes for n in per_node for b in (8, 16, 32, 64)]
    X = pd.DataFrame(cells, columns=["nodes", "workers", "batch_size"]).astype(float)
    y = 0.1 + 0.002 * X["batch_size"] + 0.05 * (X["nodes"] > 1) + 0.08 * np.log(X["workers"] / X["nodes"])
    return X, y * np.exp(noise * np.random.default_rng(0).standard_normal(len(X)))


def test_the_workers_of_a_node_have_a_term_of_their_own():
    X, y = of_nodes((1, 2, 3, 4), noise=0.01)
    model = Generic(intrinsic="batch_size", extrinsic=("nodes", "workers")).fit(X, y)
    cost = next(p for p in model.parameters() if p.name == "ln workers/nodes")
    assert cost.low < 0.08 < cost.high and cost.identified
    far, truth = of_nodes((8, 16))
    np.testing.assert_allclose(model.predict(far), truth, rtol=0.05)  # twice the noise and more
    np.testing.assert_allclose(model.formula().evaluate(far), model.predict(far), rtol=1e-9)
    again = model_from_document(json.loads(json.dumps(model.to_document())))
    np.testing.assert_allclose(again.predict(far), model.predict(far), rtol=1e-12)


def test_the_larger_of_two_counts_of_nodes_is_no_power():
    X, y = of_nodes((6, 8))
    model = Generic(intrinsic="batch_size", extrinsic=("nodes", "workers")).fit(X, y * X["nodes"] ** 0.5)
    assert model.expression_.scale["nodes"] <= 0


def test_work_that_is_shared_among_workers_is_held_near_a_power_of_minus_one():
    cells = [(n, b) for n in (1, 2, 4) for b in (32, 64, 128, 256)]
    X = pd.DataFrame(cells, columns=["workers", "batch_size"]).astype(float)
    y = (0.001 + 1e-4 * X["batch_size"]) / X["workers"]
    model = Generic(intrinsic="batch_size", extrinsic="workers").fit(X, y)
    assert model.expression_.scale["workers"] == pytest.approx(-1, abs=0.02)  # of noise-free rows


def test_a_target_of_zeros_is_refused():
    X = pd.DataFrame({"size": np.arange(1.0, 13.0)})
    with pytest.raises(ModelError, match="the target is 0 in every row"):
        Generic(intrinsic=("size",)).fit(X, np.zeros(12))


@pytest.mark.parametrize("seed", [None, 1.5, "1", True, -1, 2**32])
def test_a_seed_that_is_no_whole_number_is_refused_at_once(seed):
    frame = pd.DataFrame({"workers": np.arange(1.0, 13.0)})
    with pytest.raises(
        ModelError, match=r"option seed: .* is not possible; allowed: whole numbers from 0 to 4294967295"
    ):
        Generic(extrinsic=("workers",), seed=seed).fit(frame, frame["workers"] * 2)

import re

import numpy as np
import pandas as pd
import pytest

import steplab
from steplab.core.errors import ModelError
from steplab.models.auto import Auto, Candidate, chosen_candidate, why_chosen


def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.uniform(1, 10, 60), "depth": rng.integers(1, 9, 60).astype(float)})
    return X, 5 - 0.3 * X["size"] + X["depth"]


def test_chooses_the_model_that_made_the_data_and_says_why():
    X, y = table()
    model = Auto(("size", "depth"), among=("pmnf", "linear")).fit(X, y)
    assert model.chosen_.name() == "linear"
    told = r"linear was chosen, as it has the least held-out error: linear 0\.0 % \(0\.0 % on random rows, .*\); pmnf"
    assert re.match(told, model.why())


def test_a_candidate_that_cannot_be_fitted_is_passed_over():
    X, y = table()
    model = Auto(("size", "depth"), among=("hybrid", "linear")).fit(X, y - 100)
    assert model.chosen_.name() == "linear"
    assert "hybrid could not be fitted" in model.why()


def test_no_candidate_at_all_is_an_error_with_a_reason():
    X, y = table()
    with pytest.raises(ModelError, match="positive"):
        Auto(("size", "depth"), among=("hybrid",)).fit(X, y - 100)


def test_models_that_search_are_tried_with_few_columns_or_when_asked_for():
    X, y = table()
    many = X.assign(**{f"x{i}": X["size"] ** 0.5 + i for i in range(2)})
    names = tuple(many.columns)
    assert [t.model for t in Auto(names).fit(many, y).trials_] == ["hybrid", "ssgd", "generic", "quadratic", "linear"]
    asked = Auto(names, among=("pmnf", "linear")).fit(many, y)
    assert [t.model for t in asked.trials_] == ["pmnf", "linear"]


def tried(name, *each):
    return Candidate(name, float(np.mean(each[:3])), float(np.mean(each[3:])), "", each)


PHYSICS = tried("hybrid", 3.0, 4.0, 5.0, 5.0, 6.0, 7.0, 5.0, 6.0, 7.0)


def test_physics_is_kept_against_what_is_better_by_less_than_a_margin():
    close = tried("quadratic", 2.9, 3.9, 4.9, 4.7, 5.7, 6.7, 4.7, 5.7, 6.7)
    assert chosen_candidate([PHYSICS, close]).model == "hybrid"


def test_physics_is_kept_against_what_is_better_at_one_border_only():
    lucky = tried("quadratic", 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 6.0, 7.0, -5.0)
    assert lucky.error < 0.9 * PHYSICS.error
    assert chosen_candidate([PHYSICS, lucky]).model == "hybrid"
    assert why_chosen(PHYSICS, [lucky]).endswith("as quadratic errs less by no more than chance")


def test_what_is_clearly_better_everywhere_is_chosen_before_physics():
    better = tried("quadratic", 2.0, 3.0, 4.0, 3.0, 4.0, 5.0, 3.0, 4.0, 5.0)
    assert chosen_candidate([PHYSICS, better, Candidate("linear", None, None, "broken")]).model == "quadratic"


def test_with_few_borders_another_must_halve_the_error():
    physics, better, half = (tried(name, *each) for name, each in (
        ("hybrid", (4.0, 4.0, 4.0, 6.0)), ("linear", (3.0, 3.0, 3.0, 4.0)), ("linear", (1.0, 1.0, 1.0, 2.0))
    ))  # fmt: skip
    assert chosen_candidate([physics, better]).model == "hybrid"
    assert why_chosen(physics, [better]).endswith(
        "as linear errs less, but is judged at too few borders to trust it beyond the data"
    )
    assert chosen_candidate([physics, half]).model == "linear"


def test_the_law_of_ssgd_takes_part_under_the_names_that_tables_use():
    n, b = (np.repeat(v, k) for v, k in (([1.0, 2.0, 4.0, 8.0], 6), ([1.0], 24)))
    X = pd.DataFrame({"num_gpus": n, "local_bsz": np.tile([8.0, 16.0, 32.0], 8) * b})
    y = 0.01 + 1e-3 * X["local_bsz"] + 0.02 * (X["num_gpus"] - 1) / X["num_gpus"]
    model = Auto(extrinsic=("num_gpus", "local_bsz"), among=("ssgd", "linear")).fit(X, y)
    assert model.chosen_.name() == "ssgd"
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-6)
    assert set(model.formula().columns()) == {"num_gpus", "local_bsz"}


def test_auto_is_the_default_and_says_what_it_chose():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        [(n, b) for n in (1, 2, 4) for b in (8, 16, 32) for _ in range(2)], columns=["workers", "batch_size"]
    )
    y = (0.01 + 1e-3 * X["batch_size"] + 0.02 * (X["workers"] > 1)) * np.exp(0.02 * rng.standard_normal(len(X)))
    fitted = steplab.fit(X.assign(t_iter=y))
    assert fitted.name == "auto" and "was chosen" in fitted.why
    assert fitted.document()["why"] == fitted.why and fitted.document()["warnings"] == []


def test_with_a_factor_that_no_border_judges_the_physics_is_left_only_for_half_its_error():
    physics = Candidate("hybrid", 10.0, 10.0, "", (10.0,) * 12)
    third, half = (Candidate("pmnf", e, e, "", (e,) * 12) for e in (6.7, 4.0))
    assert chosen_candidate([physics, third]).model == "pmnf"
    assert chosen_candidate([physics, third], unjudged=True).model == "hybrid"
    assert chosen_candidate([physics, half], unjudged=True).model == "pmnf"

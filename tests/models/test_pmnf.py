import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import ModelError
from steplab.models.formulas.normal_form import Simple, candidates, solve
from steplab.models.pmnf import NormalForm


def grid(law, workers=(2, 4, 8, 16, 32), batches=(8, 16, 32, 64)):
    frame = pd.DataFrame([(n, b) for n in workers for b in batches], columns=["workers", "size"]).astype(float)
    rng = np.random.default_rng(0)
    return frame, law(frame) * (1 + 0.005 * rng.standard_normal(len(frame)))


def test_finds_a_logarithm():
    X, y = grid(lambda f: 3 + 0.5 * np.log2(f["workers"]))
    far = pd.DataFrame({"workers": [256.0], "size": [32.0]})
    np.testing.assert_allclose(NormalForm((), (), ("workers", "size")).fit(X, y).predict(far), 7, rtol=0.05)


def test_finds_a_product_of_two_parameters():
    X, y = grid(lambda f: 1 + 0.1 * f["size"] * np.sqrt(f["workers"]))
    far = pd.DataFrame({"workers": [64.0], "size": [128.0]})
    np.testing.assert_allclose(NormalForm((), (), ("workers", "size")).fit(X, y).predict(far), 103.4, rtol=0.1)


def test_levels_multiply():
    X, y = grid(lambda f: 1 + 0.1 * f["size"])
    X = X.assign(kind=np.where(np.arange(len(X)) % 2 == 0, "a", "b"))
    model = NormalForm(("size",), ("kind",), ("workers",)).fit(X, y * np.where(X["kind"] == "b", 2, 1))
    assert model.factors_["kind"]["b"] == pytest.approx(2, rel=0.1)


def test_coefficients_are_never_negative():
    X, y = grid(lambda f: 10 / f["workers"])
    assert (NormalForm((), (), ("workers", "size")).fit(X, y).coef_ >= 0).all()
    assert (solve(np.array([[1.0, 1.0], [1.0, 2.0]]), np.array([2.0, 1.0]), np.ones(2)) >= 0).all()


def test_a_column_below_one_gets_no_logarithm():
    frame = pd.DataFrame({"x": [0.1, 2.0]})
    assert all(term.logarithm == 0 for term in candidates(frame, "x", steepest=2))
    assert Simple("x", 0.0, 1) in candidates(frame + 1, "x", steepest=2)


def test_negative_columns_are_refused_by_name():
    X, y = grid(lambda f: 1 + f["size"])
    with pytest.raises(ModelError, match="'size'"):
        NormalForm((), (), ("workers", "size")).fit(X.assign(size=-X["size"]), y)

import numpy as np
import pandas as pd

from steplab.models.formulas.formula import Formula
from steplab.models.formulas.parser import parse_formula
from steplab.models.solvers.symbolic_search import sane, simplified
from steplab.models.symbolic import Symbolic

ROLES = {"intrinsic": ("size",), "extrinsic": ("workers",)}


def table():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"size": rng.uniform(10, 100, 80), "workers": rng.integers(1, 17, 80).astype(float)})
    return X, (0.2 + 0.01 * X["size"] + 0.1 * np.log(X["workers"])) * (1 + 0.01 * rng.standard_normal(80))


def test_the_same_rows_give_the_same_formula():
    X, y = table()
    first, second = (Symbolic(**ROLES, evaluations=5000, candidates=3).fit(X, y).formula().text for _ in range(2))
    assert first == second


def test_stays_positive_and_in_proportion_beyond_the_data():
    X, y = table()
    model = Symbolic(**ROLES, evaluations=5000, candidates=3).fit(X, y)
    far = model.predict(X.assign(workers=X["workers"] * 4))
    assert (far > 0).all() and (far < 8 * y.max()).all()


def test_expressions_that_blow_up_are_not_sane():
    frame = pd.DataFrame({"X1": np.linspace(0.5, 2, 30)})
    z = np.linspace(0.9, 1.1, 30)
    assert sane(parse_formula("1 + 0.1*X1", ["X1"]), frame, z)
    assert not sane(parse_formula("1 / (X1 - 8)", ["X1"]), frame, z)
    assert not sane(parse_formula("1.5 - 0.5*X1", ["X1"]), frame, z)
    assert not sane(parse_formula("exp(X1)", ["X1"]), frame, z)


def test_simplifying_gathers_numbers_and_keeps_the_value():
    tree = parse_formula("0.0 + (2 * (3 * X1)) + (1.0 * (4 + 1))", ["X1"])
    short = simplified(tree)
    assert Formula(short).text in ("5 + 6·X1", "6·X1 + 5")
    at = pd.DataFrame({"X1": [0.3, 7.0]})
    np.testing.assert_allclose(Formula(short).evaluate(at), Formula(tree).evaluate(at))

import contextlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab.core.errors import ModelError
from steplab.models.families.user_formula import Search, UserFormula
from steplab.models.formulas.formula import Formula
from steplab.models.formulas.parser import coefficients, filled, parse_formula


def test_names_that_are_no_columns_are_coefficients():
    tree = parse_formula("a0 + a1*batch*log2(workers) - a0", ["batch", "workers"])
    assert coefficients(tree) == ["a0", "a1"]
    value = Formula(filled(tree, {"a0": 1, "a1": 2})).evaluate(pd.DataFrame({"batch": [3.0], "workers": [8.0]}))
    assert value[0] == pytest.approx(18)


def test_backticks_quote_awkward_columns():
    tree = parse_formula("2^`batch size`", ["batch size"])
    assert Formula(tree).evaluate(pd.DataFrame({"batch size": [3.0]}))[0] == 8


@pytest.mark.parametrize("text", [
    "__import__('os').system('true')", "a.b", "x[0]", "lambda: 1", "[1]", "a if b else c", "open('f')",
    "a := 1",     "log(1, 2)", "log(x=1)", "min(a)", "max(*a)", "'text'", "True", "1j", "", "a +", "a < b",
    "`nothing`", "9" * 400,
])  # fmt: skip
def test_anything_but_arithmetic_is_refused(text):
    with pytest.raises(ModelError, match="formula"):
        parse_formula(text, ["x"])


@given(st.text(max_size=60))
def test_no_text_escapes_the_error_tree(text):
    with contextlib.suppress(ModelError):
        parse_formula(text, ["x"])


def test_fits_linear_and_nonlinear_coefficients():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"n": rng.uniform(1, 50, 60)})
    y = 0.3 + 2e-3 * X["n"] ** 1.5
    model = UserFormula((), (), ("n",), expression="a + b*n^c").fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-3)


def test_more_coefficients_than_a_search_can_find_are_refused():
    text = " + ".join(f"a{number}" for number in range(31))
    with pytest.raises(ModelError, match="more than 30 coefficients"):
        parse_formula(text, [])


def test_a_tower_of_powers_is_fitted_with_few_evaluations():
    X = pd.DataFrame({"workers": np.tile([1.0, 2, 4, 8], 50), "batch_size": np.repeat([16.0, 32, 64, 128], 50)})
    counted = []

    class Counting(dict):
        def __getitem__(self, name):
            counted.append(name)
            return super().__getitem__(name)

    search = Search.of(parse_formula("workers**batch_size**a0", list(X)), X, np.full(len(X), 0.1))
    evaluated = replace(search, columns=Counting(search.columns)).best([np.ones(1)] * 11)
    assert evaluated.keys() == {"a0"}
    # Each of 11 starts takes 20 steps and three take 100, of two evaluations with two columns each.
    assert len(counted) <= (11 * 20 + 3 * 100) * 2 * 2


def test_a_formula_that_takes_long_to_compute_takes_fewer_steps():
    X = pd.DataFrame({"n": np.linspace(1, 2, 200_000)})
    tree = parse_formula("a0*" + "*".join(["n"] * 30) + "+a1*n", ["n"])
    assert Search.of(tree, X, np.ones(len(X)))._from(np.ones(2), 100).nfev <= 26

import contextlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab.core.errors import ModelError
from steplab.models._parser import coefficients, filled, parse_formula
from steplab.models._user_formula import UserFormula
from steplab.models.formula import Formula


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

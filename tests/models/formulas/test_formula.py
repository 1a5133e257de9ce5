import operator
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from steplab.core.errors import ModelError
from steplab.models.formulas.formula import Formula, bumps, column, level, number, op, power

FRAME = pd.DataFrame({"x": [1.0, 2.0, 4.0], "n": [2.0, 4.0, 8.0], "k": ["u", "v", "u"]})


@pytest.mark.parametrize(("tree", "text"), [
    (op("add", number(1), op("mul", number(-2), column("x"))), "1 - 2·x"),
    (op("mul", op("add", column("x"), number(1)), power("n", -0.5)), "(x + 1)·n^(-0.5)"),
    (op("sub", column("x"), op("sub", column("n"), number(1))), "x - (n - 1)"),
    (op("div", column("x"), op("mul", column("n"), number(2))), "x/(n·2)"),
    (op("pow", op("add", column("x"), number(1)), number(2)), "(x + 1)^2"),
    (op("max", column("x"), op("log2", column("n"))), "max(x, log2(n))"),
    (level("k", {"u": 0, "v": 2.5}), "k[u: 0, v: 2.5]"),
    (op("neg", op("add", column("x"), number(1))), "-(x + 1)"),
])  # fmt: skip
def test_text_needs_no_more_brackets_than_arithmetic(tree, text):
    assert Formula(tree).text == text


def test_latex_is_written_for_every_operation():
    bent = op("min", op("exp", column("x")), op("abs", op("neg", column("x"))))
    share, root = op("div", column("batch_size"), number(2)), op("sqrt", power("n", 2))
    tree = op("add", share, root, number(1.5e-7), level("k", {"u": 1}), bent)
    latex = Formula(tree).latex
    assert r"\frac{\mathrm{batch\_size}}{2}" in latex
    assert r"1.5 \cdot 10^{-7}" in latex
    assert latex.count("{") == latex.count("}")


def test_evaluates_levels_and_operations():
    tree = op("add", op("mul", column("x"), op("log2", column("n"))), level("k", {"u": 10, "v": 20}))
    assert Formula(tree).evaluate(FRAME).tolist() == [11, 24, 22]


def test_a_constant_has_a_value_for_every_row():
    assert Formula(number(3)).evaluate(FRAME).tolist() == [3, 3, 3]


def test_bumps_are_highest_at_their_points_and_fade():
    tree = bumps([column("x"), column("n")], np.array([[1.0, 2.0], [50.0, 50.0]]), np.array([3.0, 1.0]))
    value = Formula.from_document(tree).evaluate(FRAME)
    assert value.tolist() == pytest.approx([3.0, 3 * np.exp(-2.5), 3 * np.exp(-22.5)])
    assert Formula(tree).text == "bumps(n, x; 2 points)"
    assert Formula(tree).columns() == {"x", "n"}


def test_names_its_columns_and_misses_them_by_name():
    formula = Formula(op("mul", column("x"), level("k", {"u": 1})))
    assert formula.columns() == {"x", "k"}
    with pytest.raises(ModelError, match="needs column 'x'"):
        formula.evaluate(FRAME[["k"]])


@pytest.mark.parametrize("document", [
    None, [], {}, {"op": "number"}, {"op": "number", "value": float("inf")}, {"op": "number", "value": True},
    {"op": "column"}, {"op": "level", "column": "k", "values": {"u": "x"}}, {"op": "level", "column": "k"},
    {"op": "__import__", "args": []}, {"op": "log2", "args": []}, {"op": "add", "args": []},
    {"op": "sub", "args": [{"op": "number", "value": 1}]}, {"op": "add", "args": "xy"},
    {"op": "bumps", "args": [{"op": "number", "value": 1}]},
    {"op": "bumps", "args": [{"op": "number", "value": 1}], "points": [[1, 2]], "weights": [1]},
    {"op": "bumps", "args": [{"op": "number", "value": 1}], "points": [[1]], "weights": [1, 2]},
    {"op": "bumps", "args": [{"op": "number", "value": 1}], "points": [[float("nan")]], "weights": [1]},
    {"op": "bumps", "args": [{"op": "steal"}], "points": [[1]], "weights": [1]},
])  # fmt: skip
def test_hostile_trees_are_model_errors(document):
    with pytest.raises(ModelError):
        Formula.from_document(document)


def test_a_bottomless_tree_is_a_model_error():
    tree = number(1)
    for _ in range(500):
        tree = op("neg", tree)
    with pytest.raises(ModelError, match="too deeply"):
        Formula.from_document(tree)


# Tenths are printed whole, so that the text says all of the tree, and both are computed exactly, in fractions.
leaves = st.one_of(st.integers(1, 90).map(lambda n: number(n / 10)), st.sampled_from(["x", "n"]).map(column))
EXACT = {"add": operator.add, "mul": operator.mul, "sub": operator.sub, "div": operator.truediv, "max": max}


def trees_of(*names):
    return st.recursive(leaves, lambda inner: st.builds(op, st.sampled_from(names), inner, inner), max_leaves=8)


def exact(node, row):
    """The value of a tree in a row of the table, as a fraction."""
    if node["op"] == "number":
        return Fraction(str(node["value"]))
    if node["op"] == "column":
        return row[node["name"]]
    return EXACT[node["op"]](*(exact(arg, row) for arg in node["args"]))


ROWS = [{name: Fraction(FRAME[name][at]) for name in ("x", "n")} for at in range(len(FRAME))]


@given(trees_of("add", "mul", "sub", "div", "max"))
def test_printed_text_computes_what_the_tree_computes(tree):
    try:
        expected = [exact(tree, row) for row in ROWS]
    except ZeroDivisionError:
        reject()
    text = re.sub(r"(?<![\w.])\d[\d.]*(?:e[+-]?\d+)?", r"number('\g<0>')", Formula(tree).text.replace("·", "*"))
    names = {"max": max, "number": Fraction}
    assert [eval(text, {"__builtins__": {}}, {**names, **row}) for row in ROWS] == expected


@given(trees_of("add", "mul", "div", "max"))
def test_a_tree_is_evaluated_as_its_operations_say(tree):
    expected = [float(exact(tree, row)) for row in ROWS]
    # Without differences nothing cancels: each of at most seven operations adds one rounding of 1e-16.
    np.testing.assert_allclose(Formula.from_document(tree).evaluate(FRAME), expected, rtol=1e-14)

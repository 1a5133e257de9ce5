import pytest

from steplab.core.errors import ModelError
from steplab.models.columns.roles import Roles
from steplab.models.judging.penalty_scan import scan
from steplab.models.solvers.penalty import parse_penalty


def test_one_strength_counts_for_both():
    penalty = parse_penalty("l1:0.01").penalty
    assert (penalty.kind, penalty.coef, penalty.power) == ("l1", 0.01, 0.01)


def test_cross_validation_can_be_asked_for():
    assert parse_penalty("l2:cv").by_cross_validation


@pytest.mark.parametrize("text", ["", "l3:1", "l2", "l2:", "l2:x", "l2:-1", "l2:nan", "l2:foo=1", "none:1"])
def test_nonsense_is_one_sentence(text):
    with pytest.raises(ModelError):
        parse_penalty(text)


def test_the_scan_shrinks_powers_and_accuracy(make_table):
    X, y = make_table(rows=80)
    roles = Roles(("filters",), ("padding",), ("batch_size", "workers"))
    weak, strong = scan(X, y.to_numpy(), roles, strengths=(1e-6, 10.0))[2:]
    assert (weak.penalty, strong.penalty) == ("l2", "l2")
    assert abs(strong.parameters["batch_size.q"]) < abs(weak.parameters["batch_size.q"])
    assert strong.r2 < weak.r2


def test_the_scan_has_the_form_of_the_model_or_the_source_s(make_table):
    X, y = make_table(rows=80)
    roles = Roles(("filters",), ("padding",), ("batch_size", "workers"))
    ours, source = (scan(X, y.to_numpy(), roles, strengths=(1e-3,), form=form)[0] for form in ("steps", "source"))
    assert {"workers > 1.s", "ln workers.g"} <= set(ours.parameters)
    assert not {"workers > 1.s", "ln workers.g"} & set(source.parameters)

"""scikit-learn's own checks over every discovered model; what fails is declared in its file, with the reason."""

import pytest
from sklearn.base import is_regressor
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from steplab.models import load_model_class, model_names


def for_arrays(name):
    """The model, quick enough for a rehearsal, reading an array's columns x0, x1 …"""
    cls = load_model_class(name)
    return cls(**{**cls.quick_options, **cls.array_options})


@parametrize_with_checks(
    [for_arrays(name) for name in model_names()],
    expected_failed_checks=lambda model: dict(model.failing_checks),
    xfail_strict=True,  # an exception that is no longer needed is a fault
)
def test_scikit_learns_checks(estimator, check, monkeypatch):
    for name, value in estimator.array_settings.items():
        monkeypatch.setattr(type(estimator), name, value)
    check(estimator)


@pytest.mark.parametrize("name", model_names())
def test_every_declared_exception_is_a_check_and_has_a_reason(name):
    model = for_arrays(name)
    checks = {_name(check) for _, check in estimator_checks_generator(model)}
    assert set(model.failing_checks) <= checks
    assert all(model.failing_checks.values())


def _name(check):
    while hasattr(check, "func"):
        check = check.func
    return check.__name__


@pytest.mark.parametrize("name", model_names())
def test_what_a_model_needs_is_told_to_scikit_learn(name):
    model = for_arrays(name)
    tags = model.__sklearn_tags__()
    assert is_regressor(model)
    assert tags.input_tags.positive_only == bool(model.needs_positive_columns)
    assert tags.target_tags.positive_only == bool(model.needs_positive_target)
    assert tags.regressor_tags.poor_score == bool(model.ignores_columns or model.score_is_luck)
    assert not tags.input_tags.sparse

"""The report's models: judged on trials that they have not seen, ranked, forecast, and honest about what failed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from steplab.models.base import PerformanceModel
from steplab.models.columns.roles import Roles
from steplab.models.columns.training_rows import Chosen
from steplab.models.judging.selection import random_folds
from steplab.models.linear import MODEL as LINEAR
from steplab.report import modelling
from steplab.report.modelling import Modelled, given_models, model_study, with_forecast

FOREVER_S = 1e9


def study(configurations: int = 12, replicates: int = 1, **columns: object) -> Chosen:
    """Trials with t = 1 + 2·batch_size + 3·workers and a little noise."""
    rng = np.random.default_rng(0)
    trials = np.repeat(np.arange(configurations), replicates)
    X = pd.DataFrame({"batch_size": 8.0 * (1 + trials % 6), "workers": 1.0 + trials % 4, **columns})
    y = (1.0 + 2.0 * X["batch_size"] + 3.0 * X["workers"]) * rng.lognormal(0.0, 0.01, len(X))
    groups = trials if replicates > 1 else None
    return Chosen(X, y.rename("t_iter"), Roles(extrinsic=("batch_size", "workers")), groups, ())


def fitted(chosen: Chosen) -> PerformanceModel:
    model: PerformanceModel = LINEAR(extrinsic=chosen.roles.extrinsic)
    return model.fit(chosen.X, chosen.y)


class Broken(LINEAR):  # type: ignore[misc,valid-type]
    """A model that breaks on these data."""

    def _fit(self, frame: pd.DataFrame, y: np.ndarray, groups: np.ndarray | None) -> None:
        raise ZeroDivisionError("a rate of zero\nin row 3")


@pytest.mark.parametrize("replicates", [1, 3])
def test_each_trial_is_predicted_by_a_model_that_has_not_seen_its_configuration(replicates: int) -> None:
    chosen = study(replicates=replicates)
    modelled = model_study(chosen, ["linear"], FOREVER_S)
    train, test = random_folds(len(chosen.y), chosen.groups, modelling.FOLDS)[0]
    apart = LINEAR(extrinsic=chosen.roles.extrinsic).fit(chosen.X.iloc[train], chosen.y.iloc[train])
    np.testing.assert_allclose(modelled.judged[0].predicted[test], apart.predict(chosen.X.iloc[test]))
    assert modelled.how == "held-out trials"
    assert np.isfinite(modelled.judged[0].predicted).all()


def test_the_model_that_is_shown_was_fitted_to_all_trials() -> None:
    chosen = study()
    (judged,) = model_study(chosen, ["linear"], FOREVER_S).judged
    assert judged.model is not None
    np.testing.assert_allclose(judged.model.predict(chosen.X), fitted(chosen).predict(chosen.X))
    assert judged.formula == fitted(chosen).formula().text


def test_the_least_error_stands_first_and_models_without_one_last() -> None:
    chosen = study(network=["a", "b"] * 6)
    chosen = replace(chosen, roles=Roles(categorical=("network",)))  # nothing that the ssgd model could use
    names = [judged.name for judged in model_study(chosen, ["ssgd", "linear"], FOREVER_S).judged]
    assert names == ["linear", "ssgd"]
    errors = [judged.mape for judged in model_study(study(24), ["quadratic", "linear"], FOREVER_S).judged]
    assert errors == sorted(errors)


def test_a_model_that_does_not_suit_the_study_says_why() -> None:
    chosen = replace(study(network=["a", "b"] * 6), roles=Roles(categorical=("network",)))
    (judged,) = model_study(chosen, ["ssgd"], FOREVER_S).judged
    assert judged.model is None
    assert judged.reason.startswith("the ssgd model needs column 'workers' or 'batch_size'")


def test_a_model_that_breaks_is_shown_with_the_first_line_of_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelling, "load_model_class", {"broken": Broken, "linear": LINEAR}.__getitem__)
    linear, broken = model_study(study(), ["broken", "linear"], FOREVER_S).judged
    assert (broken.model, broken.reason) == (None, "it failed with ZeroDivisionError: a rate of zero")
    assert linear.model is not None


def test_too_few_trials_for_folds_are_judged_as_fitted_without_coverage() -> None:
    modelled = model_study(study(6), ["linear"], FOREVER_S)
    assert modelled.how == "the trials it was fitted to"
    assert np.isfinite(modelled.judged[0].mape)
    assert np.isnan(modelled.judged[0].coverage)


def test_a_large_study_holds_out_a_fifth_and_learns_from_enough_rows() -> None:
    modelled = model_study(study(modelling.FEW_ROWS + 50), ["linear"], FOREVER_S)
    assert modelled.how == f"a held-out fifth of the trials (from {modelling.ENOUGH_ROWS} others)"
    assert np.isfinite(modelled.judged[0].predicted).sum() == 50


def test_a_large_study_leaves_models_out_when_the_time_is_used_up() -> None:
    modelled = model_study(study(modelling.FEW_ROWS + 50), ["linear", "quadratic"], budget_s=-1.0)
    assert {judged.reason for judged in modelled.judged} == {"left out: the models had used up their -1 s"}
    assert [judged.model for judged in modelled.judged] == [None, None]


def test_a_small_study_gets_every_model_whatever_the_time() -> None:
    modelled = model_study(study(), ["linear", "quadratic"], budget_s=-1.0)
    assert all(judged.model is not None for judged in modelled.judged)


def test_the_penalty_is_scanned_for_the_generic_model_only_and_not_on_few_trials() -> None:
    assert model_study(study(modelling.FEWEST_FOR_SCAN), ["linear"], FOREVER_S).scan == ()
    assert model_study(study(modelling.FEWEST_FOR_SCAN - 1), ["generic"], FOREVER_S).scan == ()
    assert model_study(study(modelling.FEWEST_FOR_SCAN), ["generic"], FOREVER_S).scan


def test_a_given_model_is_judged_on_the_studys_trials_and_not_fitted_again() -> None:
    chosen = study()
    model = fitted(chosen)
    slower = replace(chosen, y=2.0 * chosen.y)
    (judged,) = given_models(slower, [("m.json", model)]).judged
    assert judged.model is model
    assert judged.mape == pytest.approx(50.0, abs=1.0)


def test_a_given_model_of_another_column_predicts_nothing() -> None:
    chosen = study()
    (judged,) = given_models(replace(chosen, y=chosen.y.rename("t_f")), [("m.json", fitted(chosen))]).judged
    assert judged.reason == "it predicts t_iter"
    assert np.isnan(judged.predicted).all() and np.isnan(judged.mape)


def test_a_given_model_that_lacks_a_column_says_so() -> None:
    chosen = study()
    (judged,) = given_models(replace(chosen, X=chosen.X[["workers"]]), [("m.json", fitted(chosen))]).judged
    assert "batch_size" in judged.reason
    assert np.isnan(judged.predicted).all()


def test_a_forecast_reaches_beyond_the_measured_workers() -> None:
    chosen = study()
    modelled = with_forecast(model_study(chosen, ["linear"], FOREVER_S), chosen, {"batch_size": 8.0})
    (forecast,) = modelled.forecasts
    assert (forecast.workers[0], forecast.workers[-1]) == (1, modelling.FARTHEST * 4)
    assert {1, 2, 3, 4, 8} <= set(forecast.workers)
    assert (forecast.low <= forecast.value).all() and (forecast.value <= forecast.high).all()
    assert modelled.workers_range == (1, 4)
    assert modelled.forecast_of == "batch_size=8.0"


def test_only_trials_of_the_forecast_configuration_are_its_points() -> None:
    chosen = study()
    modelled = with_forecast(model_study(chosen, ["linear"], FOREVER_S), chosen, {"batch_size": 8.0})
    same = chosen.X["batch_size"] == 8.0
    np.testing.assert_array_equal(modelled.forecast_points, np.column_stack([chosen.X["workers"], chosen.y])[same])


@pytest.mark.parametrize(
    ("chosen", "config"),
    [
        (replace(study(), roles=Roles(extrinsic=("batch_size",))), {"batch_size": 8.0}),
        (study(workers=1.0), {"batch_size": 8.0}),
        (study(), {}),
    ],
    ids=["workers are no factor", "one number of workers", "a factor without a level"],
)
def test_nothing_is_forecast_without_workers_to_go_by(chosen: Chosen, config: dict[str, object]) -> None:
    modelled = model_study(chosen, ["linear"], FOREVER_S)
    assert with_forecast(modelled, chosen, config) is modelled


def test_a_model_that_refuses_the_configuration_has_no_curve() -> None:
    chosen = replace(study(network=["a", "b"] * 6), roles=Roles(categorical=("network",), extrinsic=("workers",)))
    modelled = model_study(chosen, ["linear"], FOREVER_S)
    assert with_forecast(modelled, chosen, {"network": "a"}).forecasts
    assert with_forecast(modelled, chosen, {"network": "never measured"}).forecasts == ()


def test_the_best_models_only_are_drawn() -> None:
    chosen = study()
    model = fitted(chosen)
    modelled = given_models(chosen, [(f"{at}.json", model) for at in range(5)])
    drawn = with_forecast(modelled, chosen, {"batch_size": 8.0}).forecasts
    assert len(drawn) == modelling.MOST_FORECASTS


def test_the_sentences_name_the_best_model_and_twice_the_measured_workers() -> None:
    chosen = study()
    modelled = with_forecast(model_study(chosen, ["linear"], FOREVER_S), chosen, {"batch_size": 8.0})
    (best, evidence), (forecast, where) = modelled.sentences()
    assert best.startswith("Inside the measured range, linear predicts held-out trials best, ")
    assert "lie in its 90 % intervals" in best
    assert forecast.startswith("With 8 workers (batch_size=8.0), linear predicts a step of ")
    assert forecast.endswith("nobody has measured more than 4.")
    assert (evidence, where) == ("predicted", "forecast")


def test_no_model_says_nothing() -> None:
    assert Modelled(reason="there are no trials").sentences() == []


def test_a_model_without_coverage_claims_none() -> None:
    ((sentence, _),) = given_models(study(), [("m.json", fitted(study()))]).sentences()
    assert "interval" not in sentence

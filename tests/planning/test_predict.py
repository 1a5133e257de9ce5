import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import ModelError
from steplab.models.linear import Linear
from steplab.planning.predict import configurations, parse_configuration, predict_table


@pytest.fixture
def model():
    X = pd.DataFrame({"workers": np.tile([1.0, 2.0, 4.0], 5), "depth": 3.0, "kind": ["u", "v", "u"] * 5})
    return Linear(("depth",), ("kind",), ("workers",)).fit(X, 10 - X["workers"])


def test_a_factor_that_never_varied_need_not_be_given(model):
    frame = configurations(model, [{"workers": "2", "kind": "u"}])
    assert frame["depth"].tolist() == ["3.0"]


def test_value_interval_and_range_are_told(model):
    inside, outside = predict_table(model, configurations(model, [{"workers": w, "kind": "u"} for w in ("2", "9")]))
    assert inside.value == pytest.approx(8, abs=1e-6)
    assert inside.inside and not outside.inside
    assert outside.outside == ("workers",)
    assert inside.low <= inside.value <= inside.high and not inside.note
    # From three values of workers, measured without noise: at least 0.3 in logarithms for each e-fold beyond 4.
    assert outside.high / outside.low >= (9 / 4) ** 0.6 and not outside.note


@pytest.mark.parametrize(("given", "message"), [
    ({"worker": "2"}, "did you mean 'workers'"),
    ({"workers": "2"}, "kind must be given"),
    ({"workers": "two", "kind": "u"}, "not a finite number"),
    ({"workers": "2", "kind": "w"}, "'w' was not measured"),
    ({"workers": "0", "kind": "u"}, "workers = 0 cannot be run; allowed: whole numbers from 1 on"),
    ({"workers": "-2", "kind": "u"}, "workers = -2 cannot be run"),
    ({"workers": "1.5", "kind": "u"}, "workers = 1.5 cannot be run"),
])  # fmt: skip
def test_a_wrong_configuration_is_one_sentence(model, given, message):
    with pytest.raises(ModelError, match=message):
        predict_table(model, configurations(model, [given]))


@pytest.mark.parametrize("text", ["", "workers", "workers=", "=3", "a=1,a=2", ","])
def test_nonsense_is_refused(text):
    with pytest.raises(ModelError):
        parse_configuration(text)

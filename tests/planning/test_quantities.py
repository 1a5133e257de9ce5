import math

import numpy as np
import pytest

from steplab.core.errors import InputError
from steplab.planning.quantities import duration, finite, parse_limits, quantity


@pytest.mark.parametrize(("text", "value"), [("8GB", 8e9), ("2 GiB", 2**31), ("1e3", 1000), ("1.5kWh", 5.4e6)])
def test_units_are_understood(text, value):
    assert quantity(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "eight", "8 parsecs", "1e999", "nan", "3GB4"])
def test_nonsense_is_no_quantity(text):
    with pytest.raises(InputError):
        quantity(text)


@pytest.mark.parametrize("text", ["-1h", "8GB", "soon"])
def test_a_size_or_a_negative_time_is_no_duration(text):
    with pytest.raises(InputError):
        duration(text)


@pytest.mark.parametrize("text", [
    "workers<=2,workers>=4", "workers<2,workers>=2", "workers=2,workers=3", "padding=same,padding=valid",
    "workers>2,workers<1,t_iter<1s",
])  # fmt: skip
def test_limits_that_contradict_each_other_are_told(text):
    with pytest.raises(InputError, match="contradict each other"):
        parse_limits(text)


@pytest.mark.parametrize("text", ["workers<=2,workers>=2", "workers>=1,workers<=8", "t_iter<1s,workers<=8", ""])
def test_limits_that_can_be_kept_together_are_taken(text):
    assert len(parse_limits(text)) == len([part for part in text.split(",") if part])


@pytest.mark.parametrize("value", [10**400, math.inf, math.nan, None, "soon"])
def test_what_is_no_finite_number_is_one_short_sentence(value):
    with pytest.raises(InputError, match=r"by is .*, no finite number") as told:
        finite(value, "by", "give seconds")
    assert len(str(told.value)) < 100


def test_a_finite_number_is_taken():
    assert finite(np.float64(2.5), "by", "") == 2.5 and finite(3, "by", "") == 3.0

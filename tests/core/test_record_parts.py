"""Parts of records that others may have written: what fits is known, what does not is not, and nothing gets lost."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from steplab.core.record_parts import MachineInfo, MeasureInfo, ResolvedInfo


def test_what_is_written_is_what_was_given() -> None:
    given = {"framework": "torch", "batch_size": 8, "gpu_type": "a100", "network_options": {"width": 2.0}}
    assert json.loads(ResolvedInfo.model_validate(given).model_dump_json()) == given


def test_what_nobody_told_is_not_known() -> None:
    resolved = ResolvedInfo()
    assert (resolved.strategy, resolved.accumulate, resolved.workers, resolved.step_samples) == ("sync", 1, None, 0.0)


@pytest.mark.parametrize("wrong", ["many", True, {"a": 1}])
def test_a_size_of_another_type_is_not_known(wrong: object) -> None:
    resolved = ResolvedInfo.model_validate({"batch_size": wrong, "workers": 2})
    assert (resolved.batch_size, resolved.workers) == (None, 2)


def test_a_number_where_a_word_belongs_is_a_word() -> None:
    resolved = ResolvedInfo.model_validate({"network": 3, "batch_size": "many"})
    assert (resolved.network, resolved.batch_size) == ("3", None)


def test_numbers_keep_their_types() -> None:
    resolved = ResolvedInfo.model_validate({"batch_size": 8, "workers": 2.0, "learning_rate": 1})
    assert list(map(type, (resolved.batch_size, resolved.workers, resolved.learning_rate))) == [int, float, int]


def test_a_protocol_with_a_damaged_field_keeps_the_others() -> None:
    measure = MeasureInfo.model_validate({"precision": "fine", "warmup": "auto", "max_iterations": 100})
    assert (measure.precision, measure.warmup, measure.max_iterations) == (None, "auto", 100)


@pytest.mark.parametrize("wrong", [{"cpus": [1]}, {"of their own": [1]}, {"of their own": {"a": [1]}}, 3, None])
def test_what_is_no_plain_value_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        MachineInfo.model_validate(wrong)

"""Limits on memory where no model was fitted to it: counted from the network that the study had."""

import json

import numpy as np
import pandas as pd
import pytest

import steplab
from steplab.core.errors import InputError
from steplab.models import model_from_document
from steplab.models.linear import Linear
from steplab.planning.best import plan_best
from steplab.planning.quantities import parse_limits

GPT = {"layers": 2, "width": 64, "heads": 4, "sequence": 64, "vocabulary": 256}
SETTING = {"framework": "torch", "network": "gpt2", "dataset": "bytes", "optimizer": "adam", "kind": "step", **GPT}


def fitted(setting, **columns):
    """A model of a step time that grows with all numbers, as of a study with that setting."""
    frame = pd.DataFrame(columns | {"batch_size": np.tile([2.0, 4.0, 8.0, 16.0], 8)})
    categorical = tuple(name for name, values in columns.items() if values.dtype == object)
    model = Linear((), categorical, tuple(name for name in frame if name not in categorical))
    model.fit(frame, pd.Series(0.01 + 0.001 * frame["batch_size"], name="t_iter"))
    model.study_setting_ = setting
    return model


def counted(batch, **more):
    options = {name: str(level) for name, level in GPT.items()}
    return steplab.memory(
        "gpt2", batch, optimizer="adam", input_shape=(64,), options=options, **more
    ).memory.total_bytes


def planned(model, limit):
    return plan_best(model, {}, minimise="t_iter", within=parse_limits(limit))


def test_a_limit_lets_those_pass_that_hold_less_and_says_that_it_counted():
    plan = planned(fitted(SETTING), f"memory<{counted(4) + 1}")
    assert {row.at["batch_size"] for row in plan.rows} == {2.0, 4.0}
    assert plan.rows[0].estimates["memory_bytes"].value == counted(2)
    assert any("counted, not measured" in text for text in plan.assumptions)


def test_what_the_model_reads_is_counted_as_it_varies():
    again = np.repeat(np.array(["False", "True"], object), 16)
    rows = planned(fitted(SETTING, recompute=again), "memory<1TB").rows
    held = {(row.at["batch_size"], row.at["recompute"]): row.estimates["memory_bytes"].value for row in rows}
    assert held[16.0, "False"] == counted(16) > held[16.0, "True"] == counted(16, recompute=True)


def test_parts_of_sharded_workers_are_counted():
    workers = np.repeat([1.0, 2.0, 4.0, 8.0], 8)
    rows = planned(fitted(SETTING | {"strategy": "sharded"}, workers=workers), "memory<1TB").rows
    held = {row.at["workers"]: row.estimates["memory_bytes"].value for row in rows if row.at["batch_size"] == 2}
    assert held[8.0] == counted(2, strategy="sharded", workers=8) < held[1.0] == counted(2)


def test_what_memory_does_not_depend_on_may_have_varied_unread():
    plan = planned(fitted(SETTING | {"threads": None, "learning_rate": None}), "memory<1TB")
    assert plan.rows[0].estimates["memory_bytes"].value == counted(2)


def test_several_workers_have_their_gradients_in_buckets_once_more():
    workers = np.repeat([1.0, 2.0], 16)
    rows = planned(fitted(SETTING, workers=workers), "memory<1TB").rows
    held = {row.at["workers"]: row.estimates["memory_bytes"].value for row in rows if row.at["batch_size"] == 2}
    assert held[2.0] == counted(2, workers=2) > held[1.0] == counted(2)


def test_of_a_gpu_only_the_peak_counts_and_on_a_cpu_the_allocator_has_an_interval():
    cpu, gpu = (
        planned(fitted(SETTING | {"device": device}), "memory<1TB").rows[0].estimates["memory_bytes"]
        for device in ("cpu", "cuda")
    )
    assert gpu.low == gpu.value == gpu.high < cpu.low < cpu.value < cpu.high


def test_the_setting_survives_saving_and_older_files_have_none():
    model = fitted(SETTING)
    document = json.loads(json.dumps(model.to_document()))
    assert model_from_document(document).study_setting_ == SETTING
    del document["setting"]
    assert model_from_document(document).study_setting_ is None


@pytest.mark.parametrize("damaged", [["network"], {"network": ["gpt2"]}])
def test_a_damaged_setting_is_told(damaged):
    with pytest.raises(InputError, match="damaged"):
        model_from_document(fitted(SETTING).to_document() | {"setting": damaged})


CANNOT = {
    "does not say what its rows had in common": None,
    "the study varied optimizer, which the model does not read": SETTING | {"optimizer": None},
    "resnet51 in torch is none of the built-in": SETTING | {"network": "resnet51"},
    "its trials are not all of training": SETTING | {"kind": "infer"},
    "it takes tokens, samples of one dimension": SETTING | {"dataset": "mnist"},
    # What no study could have had, as a stranger's model may say.
    "layers = 1000000000 must be at most 1024": SETTING | {"layers": 10**9},
    "width = 'wide' must be of the kind of 768": SETTING | {"width": "wide"},
    "dataset = 'nowhere' must be one of": SETTING | {"dataset": "nowhere"},
    "precision = 'int8' must be one of": SETTING | {"precision": "int8"},
    "recompute = 'perhaps' must be one of": SETTING | {"recompute": "perhaps"},
    "a network or data set of one's own has no graph": SETTING | {"dataset": "module:mine:texts"},
}


@pytest.mark.parametrize("why", CANNOT)
def test_what_cannot_be_counted_is_one_sentence(why):
    with pytest.raises(InputError, match=f"memory cannot be counted: .*{why}") as told:
        planned(fitted(CANNOT[why]), "memory<8GB")
    assert "--also memory.json" in str(told.value) and "\n" not in str(told.value)

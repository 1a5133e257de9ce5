"""Records: what is written comes back; anything else is one sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.core.errors import RecordError
from steplab.core.record import DataInfo, Mode, Rank, Record, parse_record
from steplab.core.trial import trial_id

CONFIG = {"framework": "synthetic", "workers": 1}


def record(**changes: object) -> Record:
    mode = Mode(columns={"t_iter": [0.2, 0.1, 0.1]}, warmup=[True, False, False])
    rank = Rank(rank=0, host="h", pid=1, cpu_s=0.1, peak_bytes=1.0, loss=None, modes={"native": mode})
    fields = {
        "study": "s",
        "trial": trial_id(CONFIG, 0),
        "replicate": 0,
        "kind": "step",
        "status": "ok",
        "config": CONFIG,
        "resolved": {"batch_size": 32, "workers": 1, "strategy": "sync", "framework": "synthetic"},
        "measure": {"iterations": 2},
        "ranks": [rank],
        "threads": 1,
        "data": DataInfo(name="mnist", source="none", samples=0),
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 1.0,
        "command": "steplab run …",
    }
    return Record.model_validate(fields | changes)


def test_a_record_survives_writing_and_reading() -> None:
    assert parse_record(record().model_dump_json().encode(), "r.json") == record()


def test_an_id_that_does_not_belong_is_refused() -> None:
    text = record().model_dump_json().replace(trial_id(CONFIG, 0), "0" * 16)
    with pytest.raises(RecordError, match="does not belong"):
        parse_record(text.encode(), "r.json")


def test_a_record_of_an_older_format_is_read() -> None:
    document = json.loads(record().model_dump_json()) | {"format": 2}
    del document["variables"]
    assert parse_record(json.dumps(document).encode(), "r.json").variables == []


def test_a_newer_format_is_refused() -> None:
    document = json.loads(record().model_dump_json()) | {"format": 999}
    with pytest.raises(RecordError, match=r"r\.json: is not a record: format"):
        parse_record(json.dumps(document).encode(), "r.json")


def test_a_good_trial_without_times_is_refused() -> None:
    document = json.loads(record().model_dump_json())
    phased = [dict(rank, modes={"phased": rank["modes"]["native"]}) for rank in document["ranks"]]
    for ranks in ([], phased):
        with pytest.raises(RecordError, match="needs ranks with native times"):
            parse_record(json.dumps(document | {"ranks": ranks}).encode(), "r.json")


@pytest.mark.parametrize(
    ("field", "level"),
    [
        ("batch_size", "many"),
        ("batch_size", None),
        ("workers", 0),
        ("strategy", "accumulate:x"),
        ("strategy", "accumulate:0"),
    ],
)
def test_a_good_trial_of_no_size_is_refused(field: str, level: object) -> None:
    document = json.loads(record().model_dump_json())
    document["resolved"] = {
        name: value for name, value in (document["resolved"] | {field: level}).items() if value is not None
    }
    with pytest.raises(RecordError, match=f"resolved.{field} must be "):
        parse_record(json.dumps(document).encode(), "r.json")


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "x", None, [1.0]])
def test_a_wrong_time_is_named_with_its_place(wrong: object) -> None:
    document = json.loads(record().model_dump_json())
    document["ranks"][0]["modes"]["native"]["columns"]["t_iter"][2] = wrong
    with pytest.raises(RecordError, match=r"ranks\.0\.modes\.native\.columns\.t_iter\.2: "):
        parse_record(json.dumps(document).encode(), "r.json")


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Mode(columns={"t_iter": [0.1]}, warmup=[])


@settings(max_examples=150)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_a_record_or_one_sentence(content: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        parse_record(content, "r.json")
    assert "\n" not in str(caught.value)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


@settings(max_examples=150)
@given(st.sampled_from(sorted(json.loads(record().model_dump_json()))), JSON)
def test_any_value_in_any_field_is_read_or_refused(field: str, value: object) -> None:
    document = json.loads(record().model_dump_json()) | {field: value}
    try:
        parse_record(json.dumps(document).encode(), "r.json")
    except RecordError as error:
        assert "r.json" in str(error)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("ranks", 0, "layers", 0, "iteration"), 2**64, "iteration"),
        (("ranks", 0, "layers", 0, "iteration"), 10**400, "iteration"),
        (("ranks", 0, "rank"), "first", "rank"),
        (("ranks", 0, "rank"), 2**40, "rank"),
        (("config", "workers"), "two", "config.workers must be a number"),
        (("config", "x"), 2**70, "x is no plain level"),
        (("replicate",), 2**63, "replicate"),
    ],
)
def test_numbers_that_no_table_holds_are_refused(place: tuple[str | int, ...], value: object, says: str) -> None:
    document = json.loads(record().model_dump_json())
    document["ranks"][0]["layers"] = [{"layer": "c1", "iteration": 0, "t_f": 0.1, "t_b": 0.1}]
    part = document
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    document["trial"] = trial_id(document["config"], document["replicate"])
    with pytest.raises(RecordError, match=says):
        parse_record(json.dumps(document).encode(), "r.json")


def test_a_failed_trial_has_sizes_that_are_numbers_too() -> None:
    config = CONFIG | {"batch_size": "many"}
    document = json.loads(record(status="failed").model_dump_json()) | {"config": config, "trial": trial_id(config, 0)}
    with pytest.raises(RecordError, match=r"config\.batch_size must be a number above 0"):
        parse_record(json.dumps(document).encode(), "r.json")

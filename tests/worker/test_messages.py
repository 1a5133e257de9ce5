"""Messages: what is sent comes back the same, and anything else is one sentence."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab_worker import codec
from steplab_worker.codec import ProtocolError
from steplab_worker.messages import (
    FROM_RANK,
    LABORATORY_MESSAGES,
    PROTOCOL,
    RANK_MESSAGES,
    TO_RANK,
    Block,
    ClockRead,
    EpochEnd,
    Failed,
    Hello,
    Iterate,
    LayerSeconds,
    Measurement,
    Message,
    ModeTimes,
    Open,
    Opened,
    Result,
    Usage,
    decode,
    encode,
    expected,
)  # fmt: skip

KINDS: Mapping[str, type[Message]] = {**RANK_MESSAGES, **LABORATORY_MESSAGES}
TIMES = st.floats(0, 1e6)
MODE = st.lists(st.booleans(), max_size=3).flatmap(
    lambda warmup: st.builds(
        ModeTimes,
        columns=st.fixed_dictionaries({name: st.lists(TIMES, min_size=len(warmup), max_size=len(warmup))
                                       for name in ("t_iter", "t_f")}),
        warmup=st.just(warmup),
    )
)  # fmt: skip
LAYER = st.integers(0, 3).flatmap(lambda n: st.builds(LayerSeconds, *[st.lists(TIMES, min_size=n, max_size=n)] * 2))
FITTING = {
    Measurement: {"modes": st.fixed_dictionaries({"native": MODE}), "loss": st.floats(allow_nan=False)},
    EpochEnd: {"t_iter": st.lists(TIMES, min_size=1, max_size=3)},
    Hello: {"protocol": st.just(PROTOCOL)},
    Open: {"protocol": st.just(PROTOCOL)},
}
WHOLE = {ModeTimes: MODE, LayerSeconds: LAYER}
PLAIN = {str: st.text(max_size=5), bool: st.booleans(), int: st.integers(1, 1000), float: TIMES, type(None): st.none()}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, within the limits of all fields."""
    if dataclasses.is_dataclass(hint):
        return objects(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(inner)
    if origin is typing.Union:
        return st.one_of([values(kind) for kind in inner])
    if origin is dict:
        return st.dictionaries(values(str), values(inner[1]), max_size=2)
    lists = st.lists(values(inner[0]), max_size=2)
    return lists.map(tuple) if origin is tuple else lists


def objects(kind: Any) -> st.SearchStrategy[Any]:
    if kind in WHOLE:
        return WHOLE[kind]
    hints = typing.get_type_hints(kind)
    drawn = {one.name: values(hints[one.name]) for one in dataclasses.fields(kind) if one.name in hints}
    return st.builds(kind, **{**drawn, **FITTING.get(kind, {})})


MESSAGES = st.one_of([objects(kind) for kind in (*FROM_RANK, *TO_RANK)])
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


@settings(max_examples=200)
@given(MESSAGES)
def test_what_is_sent_comes_back_the_same(message: Message) -> None:
    line = encode(message)
    assert decode(line, KINDS) == message
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=100), JSON.map(lambda value: json.dumps(value).encode())))
def test_any_line_is_a_message_or_one_sentence(line: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(line, KINDS)
    assert "\n" not in str(caught.value)


@settings(max_examples=300)
@given(MESSAGES, st.integers(0, 1000), JSON)
def test_a_message_with_any_value_anywhere_is_read_or_refused_in_one_sentence(
    message: Message, place: int, value: object
) -> None:
    document = json.loads(encode(message))
    holders = list(_holders(document))
    holder, key = holders[place % len(holders)]
    holder[key] = value
    try:
        again = decode(json.dumps(document).encode(), KINDS)
    except ProtocolError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 500
    else:
        assert decode(encode(again), KINDS) == again or value != value


def _holders(value: Any) -> Any:
    """Every place in a document, as what holds it and the key there."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(inside):
        yield value, key
        yield from _holders(inner)


NATIVE = ModeTimes({"t_iter": [0.5, 0.25]}, [True, False])
RESULT = Result(Measurement({"native": NATIVE}, 1.0, {"conv": LayerSeconds([0.5], [0.25])}), Usage(1.0, 2.0))


def _changed(whole: Message, /, **changes: object) -> bytes:
    return json.dumps({**json.loads(encode(whole)), **changes}).encode()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"x", "sent what is no JSON"),
        (b"[1]", "sent what is no JSON object"),
        (b"[" * 100_000, "sent what is no JSON"),
        (b"{}", "sent no name, which is no message"),
        (_changed(ClockRead(1.0), message="Clock"), "sent 'Clock', which is no message"),
        (_changed(ClockRead(1.0), more=1), "sent a wrong ClockRead: 'more' is no field of ClockRead"),
        (b'{"message": "ClockRead"}', "sent a wrong ClockRead: at: is missing"),
        (_changed(ClockRead(1.0), at=True), "at: is True, where a number is due"),
        (_changed(ClockRead(1.0), at=math.nan), "at: is nan, where a finite number is due"),
        (_changed(ClockRead(1.0), at=10**400), "at: is too large a number"),
        (_changed(Block("native", []), mode="fast"), "mode: is 'fast', where 'native' or 'phased' or 'overlap' is due"),
        (_changed(Block("native", []), t_iter=[0.5, -1.0]), r"t_iter.1: is -1.0, which is not from 0.0 to"),
        (_changed(Block("native", []), t_iter=[0.5, "a"]), "t_iter.1: is 'a', where a number is due"),
        (_changed(Block("native", []), t_iter=[0.5, math.inf]), "t_iter.1: is inf, where a finite number is due"),
        (_changed(Failed("failed", ""), status="ok"), "status: is 'ok', where "),
        (_changed(Failed("failed", ""), reason="x" * (codec.LONGEST_TEXT + 1)), "reason: is a text of 1048577 char"),
        (_changed(RESULT, usage=[]), "usage: is a list, where an object is due"),
        (encode(RESULT).replace(b"t_iter", b"t_other"), "measurement.modes.'native': columns: there is no column t_it"),
        (encode(RESULT).replace(b"[true,false]", b"[true]"), "columns: they differ in length"),
        (_changed(EpochEnd(1, 0, [0.5], 0.1), epoch=10**400), "epoch: is 1000000000"),
        (encode(RESULT).replace(b'"t_b":[0.25]', b'"t_b":[]'), "layers.'conv': t_b: there are 0 of 1 iterations"),
        (encode(RESULT).replace(b'"t_b":[0.25]', b'"t_b":[NaN]'), "layers.'conv'.t_b.0: is nan, where a finite number"),
        (encode(RESULT).replace(b'"native"', b'"phased"'), "measurement: modes: there are no native times"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(line: bytes, says: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(line, RANK_MESSAGES)
    assert says in str(caught.value)


@pytest.mark.parametrize("spoken", [PROTOCOL + 1, 0, None, "1", True, 1.0])
def test_another_version_is_refused_whatever_else_it_sends(spoken: object) -> None:
    line = json.dumps({"message": "Hello", "protocol": spoken, "of a later version": 1}).encode()
    with pytest.raises(ProtocolError, match=f"speaks protocol .*, this side {PROTOCOL}; the same version of steplab"):
        decode(line, RANK_MESSAGES)


def test_each_side_reads_only_what_the_other_may_send() -> None:
    for message, kinds in ((Iterate(1, False, True), RANK_MESSAGES), (ClockRead(1.0), LABORATORY_MESSAGES)):
        with pytest.raises(ProtocolError, match="which is no message"):
            decode(encode(message), kinds)


def test_a_whole_number_serves_as_a_float() -> None:
    assert decode(b'{"message": "Block", "mode": "native", "t_iter": [1, 2.5]}', KINDS) == Block("native", [1.0, 2.5])


def test_a_loss_may_be_infinite_or_none_at_all() -> None:
    modes = {"native": ModeTimes({"t_iter": []}, [])}
    for loss in (math.inf, -math.inf, math.nan):
        result = decode(encode(Result(Measurement(modes, loss), Usage(0.0, 0.0))), KINDS)
        assert isinstance(result, Result)
        assert repr(result.measurement.loss) == repr(loss)


def test_a_message_of_another_kind_than_expected_is_named() -> None:
    with pytest.raises(ProtocolError, match="sent ClockRead where Opened was due"):
        expected(ClockRead(1.0), Opened)

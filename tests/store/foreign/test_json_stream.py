"""A document read piece by piece is the document, wherever the pieces are cut."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.core.errors import InputError
from steplab.store.foreign import json_stream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def read(path, content, chunk):
    path.write_bytes(content)
    with mock.patch.object(json_stream, "CHUNK", chunk):
        return list(json_stream.pieces(path, "events"))


@settings(max_examples=150, deadline=None)
@given(before=VALUES, events=st.lists(VALUES, max_size=5), after=VALUES, chunk=st.integers(1, 30), wide=st.booleans())
def test_pieces_make_up_the_document(before, events, after, chunk, wide, tmp_path_factory):
    document = {"before": before, "events": events, "after": after}
    text = json.dumps(document, ensure_ascii=wide, indent=2 if wide else None)
    found = read(tmp_path_factory.mktemp("pieces") / "x.json", text.encode("utf-8", "replace"), chunk)
    expected = json.loads(text.encode("utf-8", "replace"))
    assert [value for name, value in found if name == "events"] == expected["events"]
    assert dict(pair for pair in found if pair[0] != "events") == {
        "before": expected["before"], "after": expected["after"]
    }  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=60) | st.text('{}[]:,"ab1-e. ', max_size=30).map(str.encode), chunk=st.integers(1, 9))
def test_anything_else_is_one_sentence(content, chunk, tmp_path_factory):
    try:
        read(tmp_path_factory.mktemp("pieces") / "x.json", content, chunk)
    except InputError as error:
        assert "x.json" in str(error)


def test_a_bare_list_counts_as_the_listed_field(tmp_path):
    assert read(tmp_path / "x.json", b"[1, 2]", 1) == [("events", 1), ("events", 2)]


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        list(json_stream.pieces(tmp_path / "away.json", "events"))

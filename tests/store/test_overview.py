"""All trials in brief: the same answer whether records are cached, few or many; damaged ones are named."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from steplab.core.record import Record
from steplab.store import overview as module
from steplab.store import records, tables
from steplab.store.brief import counted, judged
from steplab.store.overview import overview
from steplab.store.paths import StudyFolder


@pytest.fixture
def mixed(small: StudyFolder, record: Callable[..., Record]) -> StudyFolder:
    """A study with a failed, a drifting, a damaged and a copied trial."""
    rising = record(6).ranks[0].modes["native"].model_copy(update={"columns": {"t_iter": [0.1] * 4 + [0.5] * 4}})
    drifting = record(6).ranks[0].model_copy(update={"modes": {"native": rising}})
    records.write_record(small, record(5, status="timeout", reason="late", ranks=[]))
    records.write_record(small, record(6, ranks=[drifting]))
    small.record("0123456789abcdef").write_text('{"trial":')
    shutil.copy(small.record(record(1).trial), small.records / "copy.json")
    return small


def test_cached_few_and_many_records_give_the_same_counts(mixed: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    few = overview(mixed)
    monkeypatch.setattr(module, "LOOKED_THROUGH_BYTES", 0)
    many = overview(mixed)
    tables.load(mixed.root)
    cached = overview(mixed)
    statuses = [{trial: brief[:2] for trial, brief in one.briefs.items()} for one in (few, many, cached)]
    assert statuses[0] == statuses[1] == statuses[2] and len(statuses[0]) == 6
    assert [one.unjudged for one in (few, many, cached)] == [0, 7, 1]


def test_the_cache_knows_what_a_look_at_the_times_would_tell(mixed: StudyFolder) -> None:
    looked = overview(mixed, judged).briefs
    tables.load(mixed.root)
    assert overview(mixed, counted).briefs == looked
    assert sorted(str(brief.verdict) for brief in looked.values()) == ["None", "bad", *["clean"] * 4]


def test_what_is_no_record_is_named_and_the_rest_counted(mixed: StudyFolder) -> None:
    seen = overview(mixed)
    assert list(seen.damaged) == ["0123456789abcdef"]
    damaged, copied = seen.problems
    assert "0123456789abcdef.json: is not a record: the document: " in damaged
    assert copied.endswith("copy.json: is not named by a trial's id")


def test_what_was_seen_before_is_not_read_again(small: StudyFolder, record: Callable[..., Record]) -> None:
    before = overview(small)
    again, new = record(1, status="failed", ranks=[]), record(5)
    records.supersede(small, again.trial)
    records.write_record(small, again)
    records.write_record(small, new)

    def read(one: Record):
        assert one.trial in (again.trial, new.trial)
        return counted(one)

    seen = overview(small, read, before)
    assert len(seen.briefs) == 5 and seen.briefs[again.trial].status == "failed"


def test_a_folder_without_records_has_none(small: StudyFolder) -> None:
    shutil.rmtree(small.records)
    assert overview(small).briefs == {}

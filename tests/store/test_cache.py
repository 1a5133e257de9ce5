"""The cache: only what this user wrote, as it was written, of records that are still the same files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from steplab.core.record import Record
from steplab.store import cache, records, tables
from steplab.store.paths import StudyFolder


@pytest.fixture
def cached(small: StudyFolder) -> StudyFolder:
    """A study whose tables are cached."""
    tables.load(small.root)
    assert segments(small) == [4]
    return small


def segments(folder: StudyFolder) -> list[int]:
    """How many records each segment tells of."""
    return [len(segment.briefs) for segment in cache.segments(folder, records.listing(folder).records)]


def whole(folder: StudyFolder) -> bool:
    """Whether the tables are those of the four records, once each."""
    loaded = tables.load(folder.root)
    rows = (len(loaded.trials), loaded.iterations.num_rows, loaded.trials["trial"].nunique())
    return rows == (4, 32, 4) and sorted(loaded.trials["batch_size"]) == [1, 2, 3, 4] and not loaded.unreadable


def segment_folder(folder: StudyFolder) -> Path:
    (place,) = folder.cache.iterdir()
    return place


def test_a_trial_that_was_run_again_shows_its_new_record(cached: StudyFolder, record: Callable[..., Record]) -> None:
    again = record(2, status="failed", reason="late", ranks=[])
    records.supersede(cached, again.trial)
    assert records.write_record(cached, again)
    for _ in range(2):
        rows = tables.load(cached.root).trials.set_index("batch_size")
        assert (len(rows), rows.loc[2, "status"], rows.loc[2, "reason"]) == (4, "failed", "late")
        assert segments(cached) == [3, 1]


def test_a_record_of_the_same_size_and_time_is_still_another_file(
    cached: StudyFolder, record: Callable[..., Record]
) -> None:
    again = record(2, reason="b" * len(record(2).reason), seconds=3.0)
    path = cached.record(again.trial)
    before = path.stat()
    path.unlink()
    records.write_record(cached, again)
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert tables.load(cached.root).trials.set_index("batch_size").loc[2, "seconds"] == 3.0


def test_one_damaged_record_does_not_keep_the_others_from_being_cached(small: StudyFolder) -> None:
    damaged = min(records.done(small))
    small.record(damaged).write_text("{")
    for _ in range(2):
        loaded = tables.load(small.root)
        assert len(loaded.trials) == 3 and damaged in loaded.unreadable[0]
        assert segments(small) == [3]


@pytest.mark.parametrize("name", [*(f"{table}.parquet" for table in tables.Tables.names()), cache.INDEX])
@pytest.mark.parametrize("harm", ["empty", "missing", "truncated", "foreign", "flipped", "fifo", "link", "directory"])
def test_a_damaged_cache_is_made_again(cached: StudyFolder, tmp_path: Path, name: str, harm: str) -> None:
    path = segment_folder(cached) / name
    content = path.read_bytes()
    path.unlink()
    if harm == "link":
        (tmp_path / "outside").write_bytes(content)
        path.symlink_to(tmp_path / "outside")
    elif harm == "fifo":
        os.mkfifo(path)
    elif harm == "directory":
        path.mkdir()
    elif harm == "foreign":
        pd.DataFrame({"trial": ["x"] * 3, "status": [1, 2, 3]}).to_parquet(path)
    elif harm != "missing":
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes({"empty": b"", "truncated": content[:middle], "flipped": flipped}[harm])
    assert whole(cached)
    assert segments(cached) == [4] and whole(cached)
    assert harm != "link" or (tmp_path / "outside").read_bytes() == content


def test_a_stranger_s_cache_is_not_even_parsed(
    cached: StudyFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "somebody else's"))
    assert segments(cached) == []
    assert whole(cached)
    assert segments(cached) == [4]
    monkeypatch.undo()


def test_an_index_without_trials_doubles_nothing(cached: StudyFolder) -> None:
    path = segment_folder(cached) / cache.INDEX
    index = json.loads(path.read_bytes().partition(b"\n")[2]) | {"records": {}}
    text = json.dumps(index).encode()
    path.write_bytes(cache._seal(text, cache._key()) + b"\n" + text)  # even one that this user has sealed
    assert whole(cached)


def test_two_segments_of_the_same_records_count_once(cached: StudyFolder) -> None:
    place = segment_folder(cached)
    shutil.copytree(place, place.with_name(place.name[:-1] + "x"))
    assert segments(cached) == [4]
    assert whole(cached)


def test_many_segments_become_one(small: StudyFolder, record: Callable[..., Record], monkeypatch) -> None:
    monkeypatch.setattr(tables, "MOST_SEGMENTS", 3)
    for batch_size in range(5, 10):
        tables.load(small.root)
        records.write_record(small, record(batch_size))
    assert len(tables.load(small.root).trials) == 9
    assert sum(segments(small)) == 9 and len(segments(small)) == 3


def test_what_was_never_finished_goes_when_it_is_old(cached: StudyFolder, record: Callable[..., Record]) -> None:
    place = segment_folder(cached)
    old, new = (place.with_name(place.name[:-1] + end) for end in "yz")
    foreign, former = cached.cache / "kept", cached.cache / "000-0123abcd"
    for made in (old, new, foreign, former):
        made.mkdir()
    os.utime(old, (0, 0))
    records.write_record(cached, record(5))
    tables.load(cached.root)
    assert [made.exists() for made in (old, new, foreign, former)] == [False, True, True, False]


@pytest.mark.parametrize("put", [lambda path: path.write_text("x"), os.mkfifo])
def test_a_folder_that_takes_no_cache_is_no_reason_to_stop(small: StudyFolder, put: Callable[[Path], None]) -> None:
    put(small.cache)
    assert whole(small) and whole(small)


def test_without_a_place_for_its_key_nothing_is_cached(small: StudyFolder, home: Path) -> None:
    home.write_text("no folder")
    assert whole(small)
    assert not small.cache.exists()


def test_the_key_is_for_its_user_alone(cached: StudyFolder, home: Path) -> None:
    assert (home / cache.KEY).stat().st_mode & 0o777 == 0o600

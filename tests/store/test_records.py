"""Records on disk: each under the name of its trial, and no other file in its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from steplab.core.errors import InputError, RecordError, StoreError
from steplab.core.record import Record
from steplab.store import records
from steplab.store.paths import StudyFolder


def test_a_record_under_the_name_of_another_trial_is_none(small: StudyFolder) -> None:
    first, second, *_ = sorted(records.done(small))
    shutil.copy(small.record(first), small.record(second))
    with pytest.raises(RecordError, match=f"{second}.json: holds the trial {first}, not the one of its name"):
        records.read_record(small, second)


def test_files_of_other_names_are_told_and_are_no_records(small: StudyFolder) -> None:
    first = small.record(min(records.done(small)))
    for name in ("Documents.json", f"{first.stem} (copy).json", f"{first.stem.upper()}.json"):
        shutil.copy(first, small.records / name)
    (small.records / "notes.txt").write_text("a person's own")
    found = records.listing(small)
    assert len(found.records) == 4
    assert [sentence.rpartition("/")[2] for sentence in found.strangers] == [
        f"{name}: is not named by a trial's id"
        for name in sorted(("Documents.json", f"{first.stem} (copy).json", f"{first.stem.upper()}.json"))
    ]


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "device"])
def test_what_is_no_regular_file_is_no_record(small: StudyFolder, tmp_path: Path, kind: str) -> None:
    trial = min(records.done(small))
    path = small.record(trial)
    path.rename(tmp_path / "outside.json")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "outside.json")
    with pytest.raises(RecordError, match=f"{trial}.json: (is a|cannot be read)"):
        records.read_record(small, trial)


def test_what_is_no_record_is_put_aside_whatever_it_is(small: StudyFolder, tmp_path: Path) -> None:
    trial = min(records.done(small))
    small.record(trial).unlink()
    small.record(trial).symlink_to(tmp_path)
    records.put_damaged_aside(small, trial)
    (aside,) = small.damaged.iterdir()
    assert aside.is_symlink() and aside.name.startswith(trial)
    assert trial not in records.done(small)


def test_a_record_does_not_leave_through_a_link(small: StudyFolder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    small.superseded.symlink_to(tmp_path / "outside")
    trial = min(records.done(small))
    with pytest.raises(InputError, match="superseded: is a symbolic link"):
        records.supersede(small, trial)
    assert trial in records.done(small) and not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("name", ["records", "claims", "superseded", "damaged", "checkpoints", "cache", "study.toml"])
def test_a_folder_that_leads_elsewhere_is_refused(small: StudyFolder, tmp_path: Path, name: str) -> None:
    place = small.root / name
    if place.exists():
        place.rename(tmp_path / "outside")
    place.symlink_to(tmp_path / "outside")
    for refused in (small.must_exist, lambda: records.prepare(small, "")):
        with pytest.raises(RecordError, match=f"{name}: is a symbolic link; steplab follows no links"):
            refused()


def test_a_link_among_the_checkpoints_is_refused(small: StudyFolder, tmp_path: Path) -> None:
    small.checkpoints.mkdir()
    small.checkpoint("0123456789abcdef").symlink_to(tmp_path)
    with pytest.raises(RecordError, match="0123456789abcdef: is a symbolic link"):
        small.must_exist()


def test_the_folder_itself_may_be_a_link(small: StudyFolder, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(small.root)
    mine = StudyFolder(tmp_path / "mine")
    mine.must_exist()
    assert records.done(mine) == records.done(small)
    records.supersede(mine, min(records.done(mine)))
    assert len(records.done(small)) == 3


def test_a_name_that_is_not_utf_8_does_not_lose_the_trial(small: StudyFolder, record: Callable[..., Record]) -> None:
    made = record(5, command="steplab run caf\udce9", machine={"host": "h\udcff"}, reason="ä")
    assert records.write_record(small, made)
    read = records.read_record(small, made.trial)
    assert (read.command, read.machine.host, read.reason) == ("steplab run caf\\xe9", "h\\xff", "ä")
    assert read.ranks == made.ranks


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        records.prepare(StudyFolder(tmp_path / "file"), "")

"""Checkpoints: what was saved comes back, and nothing else is taken for it."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab_worker.checkpoints import BadFolder, Checkpoint, Checkpoints
from steplab_worker.messages import EpochRow

STATE = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "steps": np.array(7)}
ABOUT = {"trial": "0123456789abcdef", "seed": 1}


def row(epoch: int, **changed: Any) -> dict[str, Any]:
    made = {"epoch": epoch, "seconds": 1.5, "validation_s": 0.5, "iterations": 4, "loss": None, "attempt": 0}
    return made | {"train_accuracy": 0.5, "validation_accuracy": None} | changed


def made(epochs: int) -> Checkpoint:
    rows = [EpochRow(**row(epoch)) for epoch in range(1, epochs + 1)]
    return Checkpoint(rows, 0, np.full((2, 4 * epochs), 0.25), np.zeros(4 * epochs, dtype=bool), STATE)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Checkpoints]:
    (tmp_path / "study").mkdir()
    with closing(Checkpoints(str(tmp_path / "study" / "checkpoints" / "trial"), ABOUT)) as kept:
        for epoch in (1, 2, 3):
            kept.save(made(epoch))
        yield kept


def files(shelf: Checkpoints) -> list[str]:
    return sorted(path.name for path in Path(shelf.folder).iterdir())


def test_what_was_saved_comes_back(shelf: Checkpoints) -> None:
    found, notes = shelf.newest(STATE)
    assert (found.epoch, found.rows, notes) == (3, made(3).rows, [])
    assert np.array_equal(found.times, made(3).times)
    assert all(np.array_equal(found.state[name], STATE[name]) for name in STATE)


def test_only_the_newest_two_are_kept(shelf: Checkpoints) -> None:
    (Path(shelf.folder) / "epoch-00009.npz").write_bytes(b"another trial's")
    (Path(shelf.folder) / "epoch-00004.npz.17.part").write_bytes(b"half")
    (Path(shelf.folder) / "note.txt").write_text("not ours")
    shelf.save(made(4))
    assert files(shelf) == ["epoch-00003.npz", "epoch-00004.npz", "note.txt"]


def test_a_truncated_one_is_told_and_the_one_before_it_used(shelf: Checkpoints) -> None:
    path = Path(shelf.folder) / "epoch-00003.npz"
    path.write_bytes(path.read_bytes()[:-200])
    found, notes = shelf.newest(STATE)
    assert found.epoch == 2
    assert len(notes) == 1
    assert "epoch-00003.npz was not used" in notes[0]


class Mischief:
    """Runs code where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.place),)

    def __init__(self, place: Path) -> None:
        self.place = place


def test_a_pickle_in_it_is_not_opened(shelf: Checkpoints, tmp_path: Path) -> None:
    path = Path(shelf.folder) / "epoch-00003.npz"
    with np.load(path) as file:
        arrays = dict(file)
    for name in arrays:
        evil = arrays | {name: np.array([Mischief(tmp_path / "ran")], dtype=object)}
        np.savez(path, **evil)
        assert shelf.newest(STATE)[0].epoch == 2
    assert not (tmp_path / "ran").exists()


CHANGES: dict[str, dict[str, Any]] = {
    "another seed": {"job": {**ABOUT, "seed": 2}},
    "a gap": {"epochs": [row(1), row(3), row(3)]},
    "an epoch too many": {"epochs": [row(epoch) for epoch in range(1, 5)]},
    "no time": {"epochs": [row(1), row(2), row(3, seconds=float("nan"))]},
    "negative time": {"epochs": [row(1), row(2), row(3, validation_s=-1.0)]},
    "text for a number": {"epochs": [row(1), row(2), row(3, loss="__import__('os')")]},
    "more fields": {"epochs": [row(1), row(2), row(3, more=1)]},
    "no list": {"epochs": 3},
    "no attempt": {"attempt": "x"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit_is_not_used(shelf: Checkpoints, change: str) -> None:
    path = Path(shelf.folder) / "epoch-00003.npz"
    with np.load(path) as file:
        arrays = dict(file)
    said = json.loads(arrays["about"].tobytes()) | CHANGES[change]
    np.savez(path, **(arrays | {"about": np.frombuffer(json.dumps(said).encode(), dtype=np.uint8)}))
    found, notes = shelf.newest(STATE)
    assert (found.epoch, len(notes)) == (2, 1)


def test_another_network_s_arrays_are_not_used(shelf: Checkpoints) -> None:
    wider = STATE | {"weight": np.zeros((2, 4), dtype=np.float32)}
    found, notes = shelf.newest(wider)
    assert (found, len(notes)) == (None, 2)


def test_a_small_file_that_unpacks_to_a_huge_one_is_not_used(shelf: Checkpoints) -> None:
    path = Path(shelf.folder) / "epoch-00003.npz"
    with np.load(path) as file:
        np.savez_compressed(path, **dict(file))
    with zipfile.ZipFile(path) as packed:
        assert any(one.compress_type for one in packed.infolist())
    assert shelf.newest(STATE)[0].epoch == 2


@settings(max_examples=60)
@given(st.data())
def test_any_damage_is_noticed_or_harmless(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    with closing(Checkpoints(str(tmp_path_factory.mktemp("shelf")), ABOUT)) as shelf:
        shelf.save(made(1))
        path = Path(shelf.folder) / "epoch-00001.npz"
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        found, notes = shelf.newest(STATE)
    assert (found is None) == bool(notes)
    if found is not None:
        assert found.rows == made(1).rows
        assert all(np.array_equal(found.state[name], STATE[name]) for name in STATE)


def test_a_state_that_is_no_numbers_is_not_saved(shelf: Checkpoints) -> None:
    odd = Checkpoint([row(1)], 0, np.zeros((1, 4)), np.zeros(4, dtype=bool), {"x": np.array([None])})
    with pytest.raises(TypeError, match="plain numbers"):
        shelf.save(odd)


def test_a_link_is_not_read(shelf: Checkpoints, tmp_path: Path) -> None:
    newest = Path(shelf.folder) / "epoch-00003.npz"
    newest.rename(tmp_path / "outside.npz")
    newest.symlink_to(tmp_path / "outside.npz")
    found, notes = shelf.newest(STATE)
    assert found.epoch == 2 and "epoch-00003.npz was not used" in notes[0]


def test_a_fifo_holds_nobody_up(shelf: Checkpoints) -> None:
    os.mkfifo(Path(shelf.folder) / "epoch-00004.npz")
    found, notes = shelf.newest(STATE)
    assert found.epoch == 3 and "no regular file" in notes[0]


def test_nothing_is_written_through_a_link(shelf: Checkpoints, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    for name in ("epoch-00004.npz", f"epoch-00004.npz.{os.getpid()}.part"):
        (Path(shelf.folder) / name).symlink_to(outside)
    shelf.save(made(4))
    assert outside.read_text() == "mine"
    assert files(shelf) == ["epoch-00003.npz", "epoch-00004.npz"]
    assert shelf.newest(STATE)[0].epoch == 4


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder outside of the study with files that look like checkpoints, at `top/trial` by a link."""
    folder = tmp_path / "victim"
    folder.mkdir()
    for name in ("epoch-00001.npz", "epoch-00009.npz"):
        (folder / name).write_text("mine")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "trial").symlink_to(folder)
    return folder


def assert_untouched(victim: Path) -> None:
    content = {path.name: path.read_bytes() for path in victim.iterdir()}
    assert content == {"epoch-00001.npz": b"mine", "epoch-00009.npz": b"mine"}


def swap(folder: Path, target: Path) -> Path:
    """Put a link in the place of a folder; where the folder is now."""
    moved = folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)
    return moved


def test_a_link_that_takes_the_place_of_all_checkpoints_leads_nowhere(shelf: Checkpoints, victim: Path) -> None:
    moved = swap(Path(shelf.folder).parent, victim.parent / "top")
    shelf.save(made(4))
    assert_untouched(victim)
    assert sorted(path.name for path in (moved / "trial").iterdir()) == ["epoch-00003.npz", "epoch-00004.npz"]
    assert shelf.newest(STATE)[0].epoch == 4


def test_a_link_that_takes_the_place_of_a_trial_s_folder_leads_nowhere(shelf: Checkpoints, victim: Path) -> None:
    moved = swap(Path(shelf.folder), victim)
    shelf.save(made(4))
    assert_untouched(victim)
    assert sorted(path.name for path in moved.iterdir()) == ["epoch-00003.npz", "epoch-00004.npz"]


@pytest.mark.parametrize("level", ["checkpoints", "trial"])
def test_a_link_that_is_there_first_is_an_error(tmp_path: Path, victim: Path, level: str) -> None:
    study = tmp_path / "study"
    (study if level == "checkpoints" else study / "checkpoints").mkdir(parents=True)
    target = tmp_path / "top" if level == "checkpoints" else victim
    (study / "checkpoints" / "trial" if level == "trial" else study / "checkpoints").symlink_to(target)
    with closing(Checkpoints(str(study / "checkpoints" / "trial"), ABOUT)) as shelf:
        for use in (lambda: shelf.newest(STATE), lambda: shelf.load(1, STATE), lambda: shelf.save(made(1))):
            with pytest.raises(BadFolder, match=f"{level} is a link or a file"):
                use()
    assert_untouched(victim)

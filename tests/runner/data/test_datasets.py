import multiprocessing

import pytest

from steplab.core.errors import InputError
from steplab.core.home import home
from steplab.runner.data.datasets import make, provide
from steplab_worker import data


@pytest.fixture(autouse=True)
def places(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STEPLAB_DATA", str(tmp_path / "real"))
    return tmp_path


def test_without_real_files_they_are_generated_once(places):
    first = provide("mnist", 60)
    made = (first.folder / "train-images-idx3-ubyte").stat().st_mtime_ns
    assert first.source == "generated" and first.samples == 60
    assert first.folder == places / "home" / "data" / "mnist-60-s0"
    assert provide("mnist", 60) == first
    assert (first.folder / "train-images-idx3-ubyte").stat().st_mtime_ns == made


def test_real_files_are_used_whole(places):
    data.make(str(places / "real" / "mnist"), "mnist", 30, seed=9)
    source = provide("mnist", 60)
    assert (source.source, source.samples, source.folder) == ("real", 30, places / "real" / "mnist")


def test_incomplete_real_files_are_an_error_and_never_replaced_by_generated_ones(places):
    data.make(str(places / "real" / "mnist"), "mnist", 30, seed=9)
    (places / "real" / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match="t10k-labels-idx1-ubyte is missing"):
        provide("mnist", 60)


def test_a_packed_real_file_is_to_be_unpacked(places):
    data.make(str(places / "real" / "mnist"), "mnist", 30, seed=9)
    labels = places / "real" / "mnist" / "train-labels-idx1-ubyte"
    labels.rename(labels.with_name(labels.name + ".gz"))
    with pytest.raises(InputError, match=r"is missing; unpack it with `gunzip .*train-labels-idx1-ubyte.gz`"):
        provide("mnist", 60)


def test_a_damaged_real_file_is_named(places):
    data.make(str(places / "real" / "mnist"), "mnist", 30, seed=9)
    (places / "real" / "mnist" / "train-labels-idx1-ubyte").write_bytes(b"PK")
    with pytest.raises(InputError, match="train-labels-idx1-ubyte: truncated at offset 2"):
        provide("mnist")


def test_a_misspelt_name_gets_the_nearest():
    with pytest.raises(InputError, match="did you mean 'cifar10'"):
        provide("cifra10")


def test_home_falls_back_to_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("STEPLAB_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert home() == tmp_path / "steplab"


def test_a_failed_make_leaves_nothing_behind(tmp_path):
    with pytest.raises(InputError, match="cannot make 3 samples for 5 files"):
        make(tmp_path / "out", "cifar10", 3, seed=1)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_else_in_it_is_not_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is no whole mnist"):
        make(tmp_path, "mnist", 10, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_processes_may_make_the_same_folder_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=make, args=(tmp_path / "mnist", "mnist", 3000, 1)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["mnist"]
    assert len(data.open_split(str(tmp_path / "mnist"), "mnist")) == 3000

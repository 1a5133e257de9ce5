"""What every data set must do, whatever its format: covers new formats as soon as their file is there."""

import hashlib

import numpy as np
import pytest

from steplab_worker import data
from steplab_worker.data import DataError

NAMES = sorted(data.datasets())


def digest(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]


@pytest.mark.parametrize("name", NAMES)
def test_generated_data_are_read_as_their_spec_says(small, name):
    spec, folder = data.spec(name), str(small(name))
    for split in data.SPLITS:
        dataset = data.open_split(folder, name, split)
        samples = len(data.open_split(folder, name))
        count = samples if split == "train" else spec.test_samples(samples)
        samples, labels = dataset.read(np.array([count - 1, 0]))
        assert len(dataset) == count
        assert samples.shape == (2, *spec.shape) and samples.dtype == (np.int32 if spec.is_text else np.float32)
        assert labels.shape == ((2, *spec.shape) if spec.is_text else (2,)) and labels.dtype == np.int64
        assert dataset.shape == spec.shape and dataset.classes == spec.classes
        assert np.isfinite(samples).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides_every_byte(small, tmp_path, name):
    samples = len(data.open_split(str(small(name)), name))
    data.make(str(tmp_path / "same"), name, samples, seed=1)
    data.make(str(tmp_path / "other"), name, samples, seed=2)
    assert digest(tmp_path / "same") == digest(small(name))
    assert digest(tmp_path / "other") != digest(small(name))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_missing_from_generated_data(small, name):
    assert data.missing(str(small(name)), name) == []


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_classes_can_be_told_apart(small, name):
    train = data.open_split(str(small(name, 600)), name)
    samples, labels = train.read(np.arange(600))
    centres = np.stack([samples[labels == label].mean(axis=0).ravel() for label in range(10)])
    unseen, answers = data.open_split(str(small(name, 600)), name, "test").read(np.arange(100))
    distances = ((unseen.reshape(100, 1, -1) - centres) ** 2).sum(axis=-1)
    assert (distances.argmin(axis=1) == answers).mean() > 0.7


def test_a_name_or_a_split_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no data set 'minst'; there are"):
        data.open_split(str(tmp_path), "minst")
    with pytest.raises(DataError, match="there is no split 'val'; there are train, test"):
        data.open_split(str(tmp_path), "mnist", "val")


@pytest.mark.parametrize("samples", [0, -1, 10**12])
def test_a_senseless_number_of_samples_is_refused(tmp_path, samples):
    with pytest.raises(DataError, match=f"cannot make {samples} samples, from 1 to 10000000"):
        data.make(str(tmp_path / "out"), "mnist", samples, seed=1)


def test_a_folder_with_something_else_in_it_is_not_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="the folder is not empty"):
        data.make(str(tmp_path), "mnist", 10, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(("name", "module", "package"), [("imagenet", "PIL", "pillow"), ("adni", "nibabel", "nibabel")])
def test_a_missing_package_is_named(monkeypatch, small, name, module, package):
    folder = str(small(name))
    monkeypatch.setattr("importlib.util.find_spec", lambda asked: None if asked == module else asked)
    with pytest.raises(DataError, match=f"pip install {package}"):
        data.open_split(folder, name)

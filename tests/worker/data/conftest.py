"""Small generated data sets, made once per run."""

import shutil

import pytest

from steplab_worker import data


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A function from a data set's name to a folder with a small generated one."""
    root = tmp_path_factory.mktemp("small")

    def made(name, samples=None):
        samples = samples or (10 if name in ("imagenet", "adni") else 60)
        folder = root / f"{name}-{samples}"
        if not folder.exists():
            data.make(str(folder), name, samples, seed=1)
        return folder

    return made


@pytest.fixture
def copy(small, tmp_path):
    """Like `small`, but a copy that the test may damage."""

    def copied(name, samples=None):
        return shutil.copytree(small(name, samples), tmp_path / name)

    return copied

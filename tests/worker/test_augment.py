import numpy as np
import pytest

from steplab_worker.augment import AUGMENTATIONS, crop, flip

SHAPES = [(5, 3, 16, 16), (4, 1, 8, 16, 24)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [name for name in AUGMENTATIONS if name != "none"])
def test_the_seed_decides_and_the_shape_stays(name, shape):
    samples = np.random.default_rng(0).random(shape, dtype=np.float32)
    before = samples.copy()
    first, again, other = (AUGMENTATIONS[name](samples, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.shape == shape and first.dtype == np.float32
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert np.array_equal(samples, before)


def test_a_crop_is_a_shift_with_zeros_coming_in():
    samples = np.ones((200, 1, 16, 16), dtype=np.float32)
    zeros = (crop(samples, np.random.default_rng(0)) == 0).sum(axis=(1, 2, 3))
    # Shifts of 0, 1 and 2 either way leave these numbers of zeros, and no others.
    assert set(zeros) == {256 - (16 - down) * (16 - right) for down in range(3) for right in range(3)}


def test_a_flip_mirrors_the_last_dimension_of_about_half():
    samples = np.tile(np.arange(4, dtype=np.float32), (400, 1, 2, 1))
    flipped = flip(samples, np.random.default_rng(0))
    mirrored = (flipped[:, 0, 0, 0] == 3).sum()
    assert 150 < mirrored < 250
    assert set(map(tuple, flipped[:, 0, 1])) == {(0, 1, 2, 3), (3, 2, 1, 0)}

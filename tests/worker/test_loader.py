import itertools
import threading

import numpy as np
import pytest

from steplab_worker.data import DataError, Dataset
from steplab_worker.loader import Loader


class Numbers(Dataset):
    """A data set whose sample is its own index; reading number `broken` fails."""

    shape, classes = (1,), 10

    def __init__(self, length, broken=-1):
        self._length, self._broken = length, broken

    def __len__(self):
        return self._length

    def read(self, indices):
        if self._broken in indices:
            raise DataError(f"numbers.bin: offset {self._broken}")
        return np.asarray(indices, dtype=np.float32)[:, None], np.asarray(indices) % 10


def take(batches, **options):
    loader = Loader(Numbers(50), 4, **options)
    taken = [loader.next() for _ in range(batches)]
    loader.close()
    return np.stack([samples[:, 0] for samples, _ in taken])


@pytest.mark.parametrize(("background", "prefetch"), [(1, 1), (1, 4), (3, 2)])
def test_batches_are_the_same_whatever_reads_them(background, prefetch):
    def augment(samples, rng):
        return samples + rng.random(samples.shape)

    here = take(40, rank=1, workers=2, seed=5, augment=augment)
    ahead = take(40, rank=1, workers=2, seed=5, augment=augment, background=background, prefetch=prefetch)
    assert np.array_equal(here, ahead)


def test_the_parts_of_a_rank_are_those_it_reads():
    loader = Loader(Numbers(50), 4, rank=1, workers=2, seed=5)
    second_epoch = itertools.islice(loader.parts(1), 6)
    assert np.array_equal(np.stack(list(second_epoch)), take(12, rank=1, workers=2, seed=5)[6:])


def test_ranks_get_disjoint_shards_of_every_epoch():
    shards = [take(8, rank=rank, workers=3, seed=2) for rank in range(3)]  # two epochs of four batches
    for epoch in (slice(0, 4), slice(4, 8)):
        seen = np.concatenate([shard[epoch].ravel() for shard in shards])
        assert len(np.unique(seen)) == 48


def test_ranks_share_the_batch_of_one_rank_with_the_sum_of_their_batches():
    whole = Loader(Numbers(50), 12, seed=2)
    parts = [Loader(Numbers(50), 4, rank=rank, workers=3, seed=2) for rank in range(3)]
    for _ in range(9):
        together = np.concatenate([part.next()[0] for part in parts])
        assert np.array_equal(together, whole.next()[0])


@pytest.mark.parametrize("background", [0, 2])
def test_dividing_before_the_batch_is_asked_for_changes_nothing(background):
    loader = Loader(Numbers(50), 4, rank=1, workers=2, seed=5, background=background)
    taken = []
    for _ in range(20):
        loader.divide()
        loader.divide()
        taken.append(loader.next()[0][:, 0])
    loader.close()
    assert np.array_equal(np.stack(taken), take(20, rank=1, workers=2, seed=5))


def test_each_epoch_is_shuffled_anew_and_the_seed_decides():
    first, again, other = take(24, seed=1), take(24, seed=1), take(24, seed=2)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[:12], first[12:])


def test_the_epoch_is_that_of_the_batch_handed_over():
    loader = Loader(Numbers(8), 4, background=1, prefetch=3)
    epochs = []
    for _ in range(5):
        loader.next()
        epochs.append(loader.epoch)
    loader.close()
    assert epochs == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("background", [0, 2])
def test_an_error_while_reading_reaches_the_caller(background):
    loader = Loader(Numbers(8, broken=3), 4, background=background)
    with pytest.raises(DataError, match=r"numbers.bin: offset 3"):
        for _ in range(2):
            loader.next()
    loader.close()


def test_a_shard_smaller_than_a_batch_is_refused():
    with pytest.raises(DataError, match="10 samples over 3 workers leave 3 each, fewer than a batch of 4"):
        Loader(Numbers(10), 4, workers=3)


def test_closing_ends_the_threads():
    before = threading.active_count()
    loader = Loader(Numbers(50), 4, background=3)
    loader.next()
    assert threading.active_count() > before
    loader.close()
    loader.close()
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="closed"):
        loader.next()


@pytest.mark.parametrize("background", [0, 2])
def test_an_epoch_begun_anywhere_is_the_one_that_reading_on_would_give(background):
    def augment(samples, rng):
        return samples + rng.random(samples.shape)

    whole = take(36, seed=5, augment=augment)  # three epochs of twelve batches
    loader = Loader(Numbers(50), 4, seed=5, augment=augment, background=background)
    loader.next()
    for epoch in (2, 0, 1):
        loader.begin(epoch)
        again = [loader.next()[0][:, 0] for _ in range(12)]
        assert np.array_equal(again, whole[12 * epoch : 12 * epoch + 12])
    loader.close()


@pytest.mark.parametrize("background", [0, 2])
def test_batches_are_prepared_where_they_are_read(background):
    threads = set()

    def prepare(batch):
        threads.add(threading.current_thread() is threading.main_thread())
        return {"samples": batch[0]}

    loader = Loader(Numbers(50), 4, seed=5, background=background, prepare=prepare)
    prepared = np.stack([loader.next()["samples"][:, 0] for _ in range(12)])
    loader.close()
    assert threads == {background == 0}
    assert np.array_equal(prepared, take(12, seed=5))

"""Token files: windows and labels, hidden tokens, the generated language, damaged files."""

import numpy as np
import pytest

from steplab_worker import data
from steplab_worker.data import DataError
from steplab_worker.graph import UNTOLD


def write(folder, tokens, name="train.bin"):
    (folder / name).write_bytes(np.asarray(tokens, dtype="<u2").tobytes())
    return str(folder)


def text(folder, name):
    return np.fromfile(folder / "train.bin", dtype="<u2").astype(np.int64)


def test_samples_follow_each_other_and_the_label_is_the_next_token(tmp_path):
    dataset = data.open_split(write(tmp_path, range(100, 114)), "tokens", shape=(4,))
    samples, labels = dataset.read(np.array([2, 0]))
    assert len(dataset) == 3 and dataset.shape == (4,)
    assert samples.tolist() == [[108, 109, 110, 111], [100, 101, 102, 103]] and samples.dtype == np.int32
    assert labels.tolist() == [[109, 110, 111, 112], [101, 102, 103, 104]] and labels.dtype == np.int64


def test_the_test_split_is_the_validation_file(tmp_path):
    write(tmp_path, range(20))
    assert data.open_split(write(tmp_path, range(50, 55), "val.bin"), "tokens", "test", (4,)).read([0])[0][0, 0] == 50


def test_hidden_tokens_are_as_many_in_each_sample_and_always_the_same(small):
    dataset = data.open_split(str(small("wordpieces")), "wordpieces", shape=(64,))
    plain = text(small("wordpieces"), "wordpieces")[: 64 * 40].reshape(40, 64)
    samples, labels = dataset.read(np.arange(40))
    told = labels != UNTOLD
    assert set(told.sum(axis=1)) == {10}  # 15 % of 64
    assert np.array_equal(labels[told], plain[told]) and np.array_equal(samples[~told], plain[~told])
    masked, kept = (samples[told] == 103).mean(), (samples[told] == plain[told]).mean()
    # Of 400 draws with 80 % and 10 %: four standard deviations are 8 % and 6 %.
    assert abs(masked - 0.8) < 0.08 and abs(kept - 0.1) < 0.06
    again, _ = dataset.read(np.arange(39, -1, -1))
    assert np.array_equal(again[::-1], samples)


@pytest.mark.parametrize("name", ["tokens", "bytes", "wordpieces"])
def test_a_generated_text_has_the_frequencies_of_words_and_an_order(small, name):
    tokens = text(small(name, 300), name)
    counts = np.sort(np.bincount(tokens))[::-1]
    # Zipf: the tenth most frequent token is about a quarter as frequent as the first, (1 + 2.7)/(10 + 2.7).
    assert 0.12 < counts[10] / counts[0] < 0.5
    pairs = tokens[:-1] * 65536 + tokens[1:]
    usual = np.sort(np.unique(pairs, return_counts=True)[1])[::-1]
    shuffled = np.random.default_rng(0).permutation(tokens)
    chance = np.sort(np.unique(shuffled[:-1] * 65536 + shuffled[1:], return_counts=True)[1])[::-1]
    assert usual[:50].sum() > 2 * chance[:50].sum()


def test_an_odd_number_of_bytes_is_truncated(tmp_path):
    (tmp_path / "train.bin").write_bytes(b"\x01\x00" * 2000 + b"\x07")
    with pytest.raises(DataError, match=r"train\.bin: truncated at offset 4001, inside a token of 2 bytes"):
        data.open_split(str(tmp_path), "tokens")


def test_a_text_shorter_than_a_sample_is_said(tmp_path):
    with pytest.raises(DataError, match=r"train\.bin: 8 tokens, but a sample takes 9"):
        data.open_split(write(tmp_path, range(8)), "tokens", shape=(8,))


def test_a_token_beyond_the_vocabulary_is_named_with_its_offset(tmp_path):
    dataset = data.open_split(write(tmp_path, [*range(6), 256, *range(6)]), "bytes", shape=(4,))
    dataset.read(np.array([0]))
    with pytest.raises(DataError, match=r"train\.bin: token 256 at offset 12, but there are 256 tokens"):
        dataset.read(np.array([0, 1]))


def test_a_file_that_shrinks_while_in_use_is_an_error(tmp_path):
    dataset = data.open_split(write(tmp_path, range(100)), "tokens", shape=(4,))
    write(tmp_path, range(10))
    with pytest.raises(DataError, match="truncated at offset"):
        dataset.read(np.array([20]))


def test_images_are_not_cut(small):
    with pytest.raises(DataError, match=r"samples of shape \(1, 28, 28\) cannot be read as \(14, 14\)"):
        data.open_split(str(small("mnist")), "mnist", shape=(14, 14))

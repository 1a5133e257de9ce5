"""Texts as tokens: `train.bin` and `val.bin`, nothing but little-endian unsigned 16-bit numbers, one per token.

The form in which A. Karpathy's nanoGPT (`data/*/prepare.py`) and what came after it keep tokenised texts. A sample is
as many consecutive tokens as the network takes, and no two overlap. Of next-token data the label of a position is the
token after it. Of masked-token data some tokens are hidden as in J. Devlin et al., "BERT", NAACL 2019, section 3.1:
15 % of the positions, of which 80 % become the mask, 10 % another token and 10 % stay; the others have no label. Which
ones depends on the sample alone, and each sample has equally many, so a batch may be divided among ranks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO, List, Tuple

import numpy as np

from steplab_worker.data import DataError, Dataset, Spec
from steplab_worker.data._files import Records, file_size
from steplab_worker.data._images import generator
from steplab_worker.graph import UNTOLD

LENGTH = 1024  # tokens of a sample, unless the network says otherwise; samples are counted by it
NEXT, MASKED = ("next-token",), ("masked-token",)
# Original sizes are those of tiny Shakespeare, the smallest text that people begin with, in samples of LENGTH.
DATASETS = {
    "tokens": Spec((LENGTH,), 50257, 294, 35, 2048, (), (), losses=NEXT),
    "bytes": Spec((LENGTH,), 256, 980, 108, 2048, (), (), losses=NEXT),
    "wordpieces": Spec((LENGTH,), 30522, 294, 35, 2048, (), (), losses=MASKED),
}
FILES = {"train": "train.bin", "test": "val.bin"}
TOKEN = np.dtype("<u2")
HIDDEN_SHARE, MASK = 0.15, 103  # the mask's number in BERT's vocabulary


@dataclass(frozen=True)
class Words:
    """Which tokens a generated text is made of, and the one that ends a document."""

    first: int
    last: int
    end: int


# As in the vocabularies of GPT-2 and of BERT, uncased; bytes are printable characters and the line feed.
WORDS = {"tokens": Words(0, 50255, 50256), "bytes": Words(32, 126, 10), "wordpieces": Words(999, 30521, 102)}
DOCUMENT = 400  # tokens of a generated document, on average
FOLLOWERS = np.array([0.5, 0.25, 0.15, 0.1])  # how likely each of a token's usual followers is, if one of them comes
ORDER = 0.6  # how often one of them comes
STREAMS = 256  # documents written side by side


def required(folder: str, name: str) -> List[str]:
    """The files without which the data set cannot be read."""
    return [os.path.join(folder, file) for file in FILES.values()]


class Tokens(Dataset):
    """One split of a text, in samples of so many tokens."""

    def __init__(self, path: str, name: str, length: int) -> None:
        self._path, self._name, self._spec = path, name, DATASETS[name]
        self.shape, self.classes = (length,), self._spec.classes
        # The label of the last position is the token after it.
        self._count = (_tokens_in(path) - 1) // length
        if self._count < 1:
            raise DataError("%s: %d tokens, but a sample takes %d" % (path, _tokens_in(path), length + 1))
        self._records = Records(path, 0, TOKEN.itemsize * (length + 1), stride=TOKEN.itemsize * length)

    def __len__(self) -> int:
        return self._count

    def cut(self, shape: Tuple[int, ...]) -> "Tokens":
        """The same text in samples of another length."""
        return self if shape == self.shape else Tokens(self._path, self._name, shape[0])

    def read(self, indices: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The tokens as int32 and a label for each as int64."""
        window = self._records.read(indices).view(TOKEN).astype(np.int32)
        self._expect_known(window, indices)
        if self._spec.losses == MASKED:
            return _hidden(window[:, :-1], indices, self.classes)
        return np.ascontiguousarray(window[:, :-1]), window[:, 1:].astype(np.int64)

    def _expect_known(self, window: np.ndarray, indices: np.ndarray) -> None:
        """A number beyond the vocabulary would be read past the embedding's end, or be taken for another."""
        if window.max() < self.classes:
            return
        row, column = (int(place[0]) for place in np.nonzero(window >= self.classes))
        offset = int(self._records.offsets(indices)[row]) + TOKEN.itemsize * column
        what = "token %d at offset %d, but there are %d tokens" % (window[row, column], offset, self.classes)
        raise DataError("%s: %s" % (self._path, what))


def _tokens_in(path: str) -> int:
    held = file_size(path)
    if held % TOKEN.itemsize:
        raise DataError("%s: truncated at offset %d, inside a token of %d bytes" % (path, held, TOKEN.itemsize))
    return held // TOKEN.itemsize


def _hidden(tokens: np.ndarray, indices: np.ndarray, classes: int) -> Tuple[np.ndarray, np.ndarray]:
    """Tokens with some of them hidden, and these as labels."""
    samples, labels = np.array(tokens), np.full(tokens.shape, UNTOLD, dtype=np.int64)
    number = max(1, round(HIDDEN_SHARE * tokens.shape[1]))
    for row, index in enumerate(np.asarray(indices).tolist()):
        rng = np.random.default_rng(index)
        places = rng.permutation(tokens.shape[1])[:number]
        labels[row, places] = tokens[row, places]
        draw = rng.random(number)
        samples[row, places[draw < 0.8]] = MASK
        others = places[draw >= 0.9]
        samples[row, others] = rng.integers(0, classes, len(others))
    return samples, labels


def open_split(folder: str, name: str, split: str) -> Dataset:
    """Open one part of a text; one that is shorter than a sample is one sample."""
    path = os.path.join(folder, FILES[split])
    return Tokens(path, name, max(1, min(LENGTH, _tokens_in(path) - 1)))


def make(folder: str, name: str, samples: int, seed: int) -> None:
    """Write a text with the frequencies of words and some order between them.

    Frequencies fall as 1/(rank + 2.7) (B. Mandelbrot, "An informational theory of the statistical structure of
    language", 1953, after G. K. Zipf). Every token has four usual followers, drawn by these frequencies; six times in
    ten one of them comes next. So a network first learns the frequencies, then the order.
    """
    text = _Text(name, seed)
    for part, (split, count) in enumerate((("train", samples), ("test", DATASETS[name].test_samples(samples)))):
        with open(os.path.join(folder, FILES[split]), "wb") as file:
            text.write(file, count * LENGTH + 1, generator(name, seed, part))


class _Text:
    """The language of a generated text."""

    def __init__(self, name: str, seed: int) -> None:
        self.words, rng = WORDS[name], generator(name, seed)
        tokens = rng.permutation(np.arange(self.words.first, self.words.last + 1))
        frequencies = 1.0 / (np.arange(len(tokens)) + 2.7)
        self.tokens, self.shares = tokens, np.cumsum(frequencies / frequencies.sum())
        self.followers = self._drawn((DATASETS[name].classes, len(FOLLOWERS)), rng)

    def _drawn(self, shape: Tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Tokens by their frequencies."""
        ranks = np.searchsorted(self.shares, rng.random(shape))
        return self.tokens[np.minimum(ranks, len(self.tokens) - 1)]

    def write(self, file: BinaryIO, count: int, rng: np.random.Generator) -> None:
        """So many tokens: documents that go on side by side, in pieces that follow each other in the file."""
        while count > 0:
            piece = self._piece(rng).ravel()[:count]
            file.write(piece.astype(TOKEN).tobytes())
            count -= len(piece)

    def _piece(self, rng: np.random.Generator) -> np.ndarray:
        """Equally long parts of several documents, one in each row."""
        piece = np.empty((STREAMS, 2 * DOCUMENT), dtype=np.int64)
        now = np.full(STREAMS, self.words.end)
        for column in range(piece.shape[1]):
            choice = np.searchsorted(np.cumsum(FOLLOWERS), rng.random(STREAMS)).clip(max=len(FOLLOWERS) - 1)
            usual = (rng.random(STREAMS) < ORDER) & (now != self.words.end)
            following = np.where(usual, self.followers[now, choice], self._drawn((STREAMS,), rng))
            ends = rng.random(STREAMS) < 1 / DOCUMENT
            now = np.where(ends & (now != self.words.end), self.words.end, following)
            piece[:, column] = now
        return piece

"""Learnable images: every class has a smooth pattern of its own, seen shifted, faded and under noise."""

from __future__ import annotations

import zlib
from typing import Iterator, Tuple

import numpy as np

from steplab_worker.data import Spec

CHUNK = 2048  # images at a time: bounds the memory of making large data sets


def generator(name: str, seed: int, *parts: int) -> np.random.Generator:
    """A generator of its own for each data set, seed and part of it."""
    return np.random.default_rng([zlib.crc32(name.encode()), seed, *parts])


def balanced_labels(samples: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """Labels in random order, all classes equally often (up to one)."""
    return rng.permutation(np.arange(samples) % classes)


def patterns(classes: int, shape: Tuple[int, ...], rng: np.random.Generator, waves: int = 6) -> np.ndarray:
    """One smooth pattern per class with values 0..1: a sum of random low-frequency waves per channel."""
    axes = [np.linspace(0.0, 1.0, size, dtype=np.float32) for size in shape[1:]]
    total = np.zeros((classes, *shape), dtype=np.float32)
    for _ in range(waves):
        phase = rng.uniform(0, 2 * np.pi, (classes, shape[0]) + (1,) * len(axes)).astype(np.float32)
        for dim, axis in enumerate(axes):
            frequency = rng.uniform(-2.0, 2.0, (classes, 1) + (1,) * len(axes)).astype(np.float32)
            place = axis.reshape((-1,) + (1,) * (len(axes) - 1 - dim))
            phase = phase + np.float32(2 * np.pi) * frequency * place
        total += np.sin(phase)
    flat = total.reshape(classes, -1)
    low, high = flat.min(axis=1), flat.max(axis=1)
    bounds = (classes,) + (1,) * len(shape)
    return (total - low.reshape(bounds)) / np.maximum(high - low, 1e-6).reshape(bounds)


def class_patterns(spec: Spec, name: str, seed: int) -> np.ndarray:
    """The patterns of a data set's classes, about as bright as the originals."""
    bases = patterns(spec.classes, spec.shape, generator(name, seed))
    return bases ** np.float32(np.log(np.mean(spec.mean)) / np.log(0.5))


def images(labels: np.ndarray, bases: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The images of these labels as bytes (count, channels, height, width), a chunk at a time.

    Another class shines through each image, so that learning takes more than a few steps.
    """
    for start in range(0, len(labels), CHUNK):
        own = labels[start : start + CHUNK]
        others = rng.integers(0, len(bases), len(own))
        seen = _shifted(own, (bases * 120.0).astype(np.uint8), rng)
        seen += _shifted(others, (bases * 70.0).astype(np.uint8), rng)
        seen += rng.integers(0, 64, seen.shape, dtype=np.uint8)
        yield np.ascontiguousarray(np.moveaxis(seen, -1, 1))


def _shifted(labels: np.ndarray, pictures: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The pictures of these labels, each moved by up to a tenth; channels last."""
    height, width = pictures.shape[2:]
    reach = max(1, height // 10)
    down, right = rng.integers(-reach, reach + 1, (2, len(labels)))
    rows = (np.arange(height) + down[:, None]) % height
    columns = (np.arange(width) + right[:, None]) % width
    return pictures[labels[:, None, None], :, rows[:, :, None], columns[:, None, :]]

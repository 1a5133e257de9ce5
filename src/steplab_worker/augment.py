"""Augmentations: what a loader changes at random in every batch, by name.

`crop` moves each sample by up to an eighth of its size, with zeros (the mean) coming in at the edges; `crop-flip` also
mirrors every other one, on average. That is 4 pixels for CIFAR as in K. He et al., "Deep residual learning for image
recognition", CVPR 2016, and 28 of 224 for ImageNet, close to the 32 of A. Krizhevsky et al., "ImageNet classification
with deep convolutional neural networks", NIPS 2012. Both work on images and on volumes.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional

import numpy as np

Augment = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def crop(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each sample moved by up to an eighth of its size in every direction."""
    extents = samples.shape[2:]
    pads = [extent // 8 for extent in extents]
    padded = np.pad(samples, [(0, 0), (0, 0)] + [(pad, pad) for pad in pads])
    begins = rng.integers(0, [2 * pad + 1 for pad in pads], (len(samples), len(pads)))
    cropped = np.empty_like(samples)
    for row, begin in enumerate(begins):
        window = tuple(slice(first, first + extent) for first, extent in zip(begin, extents))
        cropped[row] = padded[(row, slice(None), *window)]
    return cropped


def flip(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each sample mirrored left to right with probability one half."""
    mirrored = rng.random(len(samples)) < 0.5
    flipped = samples.copy()
    flipped[mirrored] = samples[mirrored, ..., ::-1]
    return flipped


def crop_flip(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each sample moved, then mirrored with probability one half."""
    return flip(crop(samples, rng), rng)


AUGMENTATIONS: Dict[str, Optional[Augment]] = {"none": None, "crop": crop, "flip": flip, "crop-flip": crop_flip}

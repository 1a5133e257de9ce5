"""A user's own data set, named `module:file:function`: a function that returns a map-style PyTorch `Dataset`.

Each sample is a pair of inputs and target. A function with a parameter is told which split is wanted, `train` or
`test`; one without gives the training split only.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Sequence, Tuple

import numpy as np
import torch

from steplab_worker import data
from steplab_worker.adapters.torch.factory import FactoryError, explained, load_factory


def make_dataset(spec: str, split: str = "train", paths: Sequence[str] = ()) -> Any:
    """The user's `Dataset` of a split, checked: it has a length and gives pairs."""
    factory = load_factory(spec, paths)
    told = _told(factory)
    if split != "train" and not told:
        raise FactoryError("%s has no parameter for the split, so it gives no %s samples" % (spec, split))
    dataset = explained(spec, lambda: factory(split) if told else factory())
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        kind = type(dataset).__name__
        raise FactoryError("%s returned a %s, not a data set with a length and samples by number" % (spec, kind))
    return dataset


def _told(factory: Callable[..., Any]) -> bool:
    """Whether the function wants to know the split."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(parameter.kind in kinds for parameter in inspect.signature(factory).parameters.values())


def sample_of(spec: str, dataset: Any, index: int = 0) -> Tuple[np.ndarray, np.ndarray]:
    """One sample as arrays: inputs and target."""
    if not len(dataset):
        raise FactoryError("%s is empty" % spec)
    pair = explained(spec, lambda: dataset[index])
    if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
        raise FactoryError("%s: a sample is a %s, not a pair of inputs and target" % (spec, type(pair).__name__))
    inputs, target = (np.asarray(part) for part in pair)
    if not inputs.shape or inputs.dtype == object:
        raise FactoryError("%s: the inputs of a sample are a %s, not a tensor" % (spec, type(pair[0]).__name__))
    return inputs, target


def classes_of(dataset: Any) -> int:
    """How many classes the data set says it has, by `classes` (a number or their names); 0 if it does not say."""
    classes = getattr(dataset, "classes", 0)
    return classes if isinstance(classes, int) else len(classes)


class OwnSplit(data.Dataset):
    """A split of a user's data set, as our loader reads it: sample by sample, stacked to batches."""

    def __init__(self, spec: str, split: str = "train"):
        self.dataset = make_dataset(spec, split)
        self.shape = sample_of(spec, self.dataset)[0].shape
        self.classes = classes_of(self.dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, indices: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The samples of these numbers."""
        pairs = [self.dataset[int(index)] for index in indices]
        inputs, targets = zip(*((np.asarray(sample), np.asarray(target)) for sample, target in pairs))
        return np.stack(inputs), np.stack(targets)


class ReadSamples(torch.utils.data.Dataset):
    """The other way round: one of our splits as a PyTorch `Dataset`, for `DataLoader`."""

    def __init__(self, split: data.Dataset):
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> Tuple[np.ndarray, np.ndarray]:
        samples, labels = self.split.read(np.array([index]))
        return samples[0], labels[0]

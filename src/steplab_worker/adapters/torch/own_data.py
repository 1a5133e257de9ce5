"""A user's own data set, named `module:file:function`: a function that returns a map-style PyTorch `Dataset`.

Each sample is a pair of inputs and target, or a mapping of arrays by name as Hugging Face's models take them. A
function with a parameter is told which split is wanted, `train` or `test`; one without gives the training split only.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Sequence, Tuple

import numpy as np
import torch

from steplab_worker import data
from steplab_worker.adapters.torch.factory import FactoryError, explained, load_factory
from steplab_worker.adapters.torch.named_samples import each, is_named, main_input, stacked


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
    if not explained(spec, lambda: len(dataset)):
        raise FactoryError("%s is empty" % spec)
    return dataset


def _told(factory: Callable[..., Any]) -> bool:
    """Whether the function wants to know the split."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(parameter.kind in kinds for parameter in inspect.signature(factory).parameters.values())


def sample_of(spec: str, dataset: Any, index: int = 0) -> Tuple[Any, Any]:
    """One sample as arrays: inputs and target; inputs by name are a dictionary, and then there is no target."""
    sample = explained(spec, lambda: dataset[index])
    if is_named(sample):
        return _named(spec, sample), None
    if not (isinstance(sample, (tuple, list)) and len(sample) == 2):
        what = "a pair of inputs and target or arrays by name"
        raise FactoryError("%s: a sample is a %s, not %s" % (spec, type(sample).__name__, what))
    return _tensor(spec, "inputs of a sample are", sample[0]), _array(spec, sample[1])


def _named(spec: str, sample: Any) -> Any:
    if not sample:
        raise FactoryError("%s: a sample is empty" % spec)
    for name, part in sample.items():
        if not isinstance(name, str):
            raise FactoryError("%s: %r is no name of an array; the network gets them by their names" % (spec, name))
        if _array(spec, part).dtype.kind not in "biuf":
            raise FactoryError("%s: %r of a sample is no numbers but %s" % (spec, name, type(part).__name__))
    main = main_input(sample)
    _tensor(spec, "%r of a sample is" % main, sample[main])
    return {name: _array(spec, part) for name, part in sample.items()}


def _array(spec: str, part: Any) -> np.ndarray:
    """A part of a sample as NumPy has it; not every tensor can be one."""
    return explained(spec, lambda: np.asarray(part))


def _tensor(spec: str, what: str, part: Any) -> np.ndarray:
    array = _array(spec, part)
    if not array.shape or array.dtype == object:
        raise FactoryError("%s: the %s a %s, not a tensor" % (spec, what, type(part).__name__))
    if not array.size:
        raise FactoryError("%s: the %s empty" % (spec, what))
    return array


def batch_of(spec: str, dataset: Any, size: int) -> Tuple[Any, Any]:
    """The first samples as a batch of tensors: inputs, and targets or None."""
    samples, targets = zip(*(sample_of(spec, dataset, index % len(dataset)) for index in range(size)))
    if is_named(samples[0]):
        return each(explained(spec, lambda: stacked(samples)), torch.from_numpy), None
    return tuple(explained(spec, lambda part=part: torch.from_numpy(np.stack(part))) for part in (samples, targets))


def shape_of(inputs: Any) -> Tuple[int, ...]:
    """The shape of a sample's inputs, or of the main one of several."""
    return tuple((inputs[main_input(inputs)] if is_named(inputs) else inputs).shape)


def classes_of(spec: str, dataset: Any) -> int:
    """How many classes the data set says it has, by `classes` (a number or their names); 0 if it does not say."""
    classes = getattr(dataset, "classes", 0)
    number = len(classes) if hasattr(classes, "__len__") else classes
    if not isinstance(number, int) or number < 0:
        raise FactoryError("%s: its `classes` are %r, neither a number of classes nor their names" % (spec, classes))
    return number


class OwnSplit(data.Dataset):
    """A split of a user's data set, as our loader reads it: sample by sample, stacked to batches."""

    def __init__(self, spec: str, split: str = "train"):
        self.dataset = make_dataset(spec, split)
        inputs, _ = sample_of(spec, self.dataset)
        self.named = is_named(inputs)
        self.shape = shape_of(inputs)
        self.classes = classes_of(spec, self.dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, indices: np.ndarray) -> Tuple[Any, Any]:
        """The samples of these numbers; those of arrays by name have their labels among them."""
        pairs = [self.dataset[int(index)] for index in indices]
        if self.named:
            return stacked(pairs), None
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

"""Batches of arrays by name, and networks that give an object with a loss: what Hugging Face's models take and give.

`net(**batch)` gives an output whose `logits` are the scores and, where the batch has `labels`, whose `loss` is the
loss. Outputs are objects with attributes or mappings; a tensor is its own scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Dict, Optional, Sequence

import numpy as np
import torch

LABELS = "labels"
MAIN = ("input_ids", "pixel_values", "input_values", "input_features")


def is_named(sample: Any) -> bool:
    """Whether a sample, or a batch of them, has its arrays by name."""
    return isinstance(sample, Mapping)


def main_input(samples: Mapping) -> str:
    """The name of what the network is about: its tokens or pixels, else the first."""
    return next((name for name in MAIN if name in samples), next(iter(samples)))


def stacked(samples: Sequence[Mapping]) -> Dict[str, np.ndarray]:
    """Samples as one batch, array by array.

    >>> stacked([{"input_ids": [1, 2]}, {"input_ids": [3, 4]}])["input_ids"].tolist()
    [[1, 2], [3, 4]]
    """
    return {name: np.stack([np.asarray(sample[name]) for sample in samples]) for name in samples[0]}


def each(part: Any, work: Callable[[Any], Any]) -> Any:
    """What a function makes of an array, or of every one that has a name; nothing of nothing."""
    if is_named(part):
        return {name: work(array) for name, array in part.items()}
    return None if part is None else work(part)


def call(net: Callable[..., Any], samples: Any) -> Any:
    """The network's output."""
    return net(**samples) if is_named(samples) else net(samples)


def labels_of(samples: Any, labels: Any) -> Any:
    """The labels of a batch, beside the samples or among them."""
    return samples.get(LABELS) if is_named(samples) else labels


def unlabelled(samples: Any) -> Any:
    """Samples without the labels that may be among them: the network then gives scores, and computes no loss."""
    return {name: part for name, part in samples.items() if name != LABELS} if is_named(samples) else samples


def loss_in(output: Any) -> Optional[torch.Tensor]:
    """The loss that a network computed itself, if it did."""
    return None if torch.is_tensor(output) else _part(output, "loss")


def scores_in(output: Any) -> Any:
    """The scores of an output; what is neither a tensor nor has `logits` stays what it is."""
    logits = None if torch.is_tensor(output) else _part(output, "logits")
    return output if logits is None else logits


def _part(output: Any, name: str) -> Optional[torch.Tensor]:
    value = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
    return value if torch.is_tensor(value) else None

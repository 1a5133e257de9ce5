"""One array of weights, of any size: nothing to learn with, but what a collective moves can be chosen.

The mean of each channel times a dense layer without bias. With data of one channel the layer has as many weights as
asked for; trials of kind `exchange` measure with it.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import Builder, Graph
from steplab_worker.options import Option

INPUT = (1, 28, 28)
CLASSES = 10
PARAMETERS = 256
ITEM_BYTES = 4  # of a float32
OPTIONS = {
    "message_bytes": Option(1024, "bytes of the array", low=64, high=2**32, shapes=False),
}


def build(input_shape: Sequence[int], classes: int, message_bytes: int) -> Graph:
    """An array for samples of any shape; labels are among its outputs, of which there are at least as many."""
    net = Builder("array", input_shape)
    net.add("global_avg_pool", "mean")
    net.dense("array", max(classes, message_bytes // ITEM_BYTES // input_shape[0]), bias=False)
    return net.graph()

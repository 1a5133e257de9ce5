"""ViT-B/16: a vision transformer over patches of 16x16 pixels.

A. Dosovitskiy et al., "An image is worth 16x16 words: transformers for image recognition at scale", ICLR 2021.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import Graph
from steplab_worker.networks._transformer import image_options, vision

INPUT = (3, 224, 224)
CLASSES = 1000
PARAMETERS = 86567656
OPTIONS = image_options(layers=12, width=768, heads=12)


def build(
    input_shape: Sequence[int], classes: int, layers: int, width: int, heads: int, patch: int, dropout: float
) -> Graph:
    """ViT for images of at least a patch; what a last patch would not fill is left out."""
    return vision("vit_b16", input_shape, classes, layers, width, heads, patch, dropout)

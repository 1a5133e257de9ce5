"""ViT-Ti/16: the vision transformer at a width that trains without a cluster.

The size is that of H. Touvron et al., "Training data-efficient image transformers & distillation through attention",
ICML 2021 (DeiT-Ti, without its distillation): width 192, three heads.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import Graph
from steplab_worker.networks._transformer import image_options, vision

INPUT = (3, 224, 224)
CLASSES = 1000
PARAMETERS = 5717416
OPTIONS = image_options(layers=12, width=192, heads=3)


def build(
    input_shape: Sequence[int], classes: int, layers: int, width: int, heads: int, patch: int, dropout: float
) -> Graph:
    """ViT for images of at least a patch; what a last patch would not fill is left out."""
    return vision("vit_tiny", input_shape, classes, layers, width, heads, patch, dropout)

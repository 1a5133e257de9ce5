"""The environment variables that change how fast a framework is, as this process sees them."""

from __future__ import annotations

import os
from typing import Dict, Mapping, Sequence

from steplab_worker.messages import AmbientVariables

_PREFIXES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "ONEDNN_", "DNNL_",  # numerical libraries
    "TORCH", "PYTORCH_", "TF_", "XLA_", "JAX_", "PJRT_", "MXNET_", "DMLC_", "CHAINER_", "KERAS_",  # frameworks
    "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32_", "HIP_", "ROCR_", "NCCL_", "GLOO_", "UCX_",  # devices, networks
    "MALLOC_",
)  # fmt: skip
_NAMES = ("NPROC", "LD_PRELOAD")
# Terraform's variables begin with TF_ too, and some of them are secrets. Nothing that sounds like one is written down.
_PRIVATE = ("TF_VAR_", "TF_TOKEN_", "TF_CLI_")
_SECRETS = ("TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIALS")


def seen(among: Mapping[str, str] = os.environ) -> Dict[str, str]:
    """The variables and their values, by name."""
    return {name: among[name] for name in sorted(among) if _matters(name)}


def ambient(before: Dict[str, str], always: Sequence[str]) -> AmbientVariables:
    """What the framework sees, and which of it steplab has set: what it always sets, and what differs from `before`."""
    now = seen()
    return AmbientVariables(now, [name for name in now if name in always or now[name] != before.get(name)])


def _matters(name: str) -> bool:
    if name.startswith(_PRIVATE) or any(word in _SECRETS for word in name.upper().split("_")):
        return False
    return name in _NAMES or name.startswith(_PREFIXES)

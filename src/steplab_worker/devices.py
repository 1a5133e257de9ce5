"""The device that a rank's placement gives it, chosen before its framework is imported: in the same way for all."""

from __future__ import annotations

import os
from typing import MutableMapping

CUDA = "cuda:"
VISIBLE = "CUDA_VISIBLE_DEVICES"


def choose(device: str, environ: MutableMapping[str, str] = os.environ) -> None:
    """Let frameworks see that GPU alone, or none; an empty device leaves it to them.

    What a scheduler has made visible is counted, not what the host has.

    >>> there = {"CUDA_VISIBLE_DEVICES": "2,3"}
    >>> choose("cuda:1", there)
    >>> there
    {'CUDA_VISIBLE_DEVICES': '3'}
    """
    if device == "cpu":
        environ[VISIBLE] = ""
    elif device.startswith(CUDA):
        number = int(device[len(CUDA) :])
        visible = [gpu for gpu in environ.get(VISIBLE, "").split(",") if gpu]
        if visible and number >= len(visible):
            environ[VISIBLE] = ""  # there is none left: the framework will see no GPU
        else:
            environ[VISIBLE] = visible[number] if visible else str(number)


def missing(device: str, seen: bool) -> str:
    """Why a rank cannot have its device, or an empty string; `seen` is whether its framework sees a GPU."""
    if not device.startswith(CUDA) or seen:
        return ""
    return "device = 'cuda' needs GPU %s of its host, and the framework sees none there" % device[len(CUDA) :]

"""Trials of kind `train`."""

from __future__ import annotations

from steplab_worker import training

run = training.train

"""The names of all performance models, without importing any of them."""

from __future__ import annotations

from steplab.models import model_names

__all__ = ["model_names"]

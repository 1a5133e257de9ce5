"""Configurations and shares as sentences name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steplab.core.trial import Level

NAMED = 3  # configurations that a sentence names; the rest are counted


def label(factors: Mapping[str, Level], varied: Sequence[str]) -> str:
    """A configuration by the factors that vary.

    >>> label({"network": "lenet5", "batch_size": 32}, ["batch_size"])
    'batch_size 32'
    """
    known = [f"{name} {factors[name]}" for name in varied if name in factors]
    return ", ".join(known) or "the only configuration"


def listed(names: Sequence[str]) -> str:
    """Some configurations of many.

    >>> listed(["batch_size 8", "batch_size 16"]), listed(["a", "b", "c", "d", "e"])
    ('batch_size 8; batch_size 16', 'a; b; c; and 2 more')
    """
    rest = len(names) - NAMED
    return "; ".join([*names[:NAMED], *([f"and {rest} more"] if rest > 0 else [])])


def percent(share: float) -> str:
    """A share with three digits.

    >>> percent(0.95), percent(0.98765), percent(1.0)
    ('95 %', '98.8 %', '100 %')
    """
    return f"{share * 100:.3g} %"

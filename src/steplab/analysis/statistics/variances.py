"""The noise of each configuration from few replicates: its own variance, moderated by those of all others.

Three replicates alone say little about their spread, and a study's configurations are not equally noisy: four ranks
on two cores jitter more than one. So the true variances are taken as drawn from a scaled inverse chi-square
distribution, whose place s0² and degrees of freedom d0 are estimated from all sample variances (Smyth, Statistical
Applications in Genetics and Molecular Biology 3, 2004, article 3). A configuration's variance is then
(d0·s0² + d·s²)/(d0 + d), with d0 + d degrees of freedom: pooled where the noise is equal, its own where it is not.

Three things differ from genes, of which there are thousands. A dozen variances tell d0 badly, so a quarter of it
counts. No configuration is taken as calmer than it was seen to be. And a single noisy one among calm ones must not pass
for calm: beyond three times what the others lead to expect it has its own few degrees of freedom. All were chosen by
simulation (`benchmarks/coverage.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FEWEST = 3  # variances from which a distribution of variances can be told
TRUST = 0.25  # share of the prior's degrees of freedom that counts
UNLIKE = 3.0  # a variance that many times the prior's is not of the pool
UNEQUAL = 0.5  # p-value of Bartlett's test from which on variances are taken as equal: they look more alike than not
LEAST = 1e-5  # of the median variance: smaller ones are rounding (as in limma)


@dataclass(frozen=True)
class Moderated:
    """A variance for each sample and its degrees of freedom; `own` where the others had no say in it."""

    variance: Array
    freedom: Array
    own: NDArray[np.bool_]
    pool: float  # degrees of freedom of all samples together: nothing is known better than that


def moderated(variances: Array, freedom: Array) -> Moderated:
    """Moderate sample variances with these degrees of freedom; a sample without any takes what the others tell."""
    known = freedom > 0
    pool = float(freedom[known].sum())
    if known.sum() < FEWEST or not (variances[known] > 0).any():
        return Moderated(np.where(known, variances, np.nan), freedom.astype(float), np.ones(len(freedom), bool), pool)
    place, strength = _prior(variances[known], freedom[known])
    strength = min(TRUST * strength, pool)
    own = np.where(known, variances, 0.0)
    shrunk = (strength * place + freedom * own) / (strength + freedom)
    alone = own > UNLIKE * place
    return Moderated(
        np.maximum(own, shrunk),
        np.where(alone, freedom, np.minimum(strength + freedom, pool)),
        alone,
        pool,
    )


def _prior(variances: Array, freedom: Array) -> tuple[float, float]:
    """s0² and d0 by the moments of log variances; infinite d0 where they vary no more than chance lets them."""
    from scipy.optimize import brentq
    from scipy.special import digamma, polygamma

    least = LEAST * float(np.median(variances[variances > 0]))
    logs = np.log(np.maximum(variances, least)) - digamma(freedom / 2) + np.log(freedom / 2)
    beyond = float(logs.var(ddof=1) - polygamma(1, freedom / 2).mean())
    half = float(brentq(lambda x: polygamma(1, x) - beyond, 1e-3, 1e6)) if 1e-6 < beyond < 1e6 else np.inf
    if np.isinf(half):
        return float((freedom * variances).sum() / freedom.sum()), np.inf
    return float(np.exp(logs.mean() + digamma(half) - np.log(half))), 2 * half


def unequal(variances: Array, freedom: Array) -> bool:
    """Whether the variances differ by more than chance allows (Bartlett, Proceedings of the Royal Society A 160, 1937).

    >>> unequal(np.array([1.0, 1.5, 0.7]), np.full(3, 4.0)), unequal(np.array([1.0, 90.0, 2.0]), np.full(3, 4.0))
    (False, True)
    """
    from scipy.stats import chi2

    known = freedom > 0
    own, d = variances[known], freedom[known]
    total, groups = float(d.sum()), len(d)
    if groups < FEWEST or not (own > 0).any():
        return False
    pooled = float((d * own).sum() / total)
    size = total * np.log(pooled) - float((d * np.log(np.maximum(own, LEAST * pooled))).sum())
    size /= 1 + (float((1 / d).sum()) - 1 / total) / (3 * (groups - 1))
    return bool(chi2.sf(size, groups - 1) < UNEQUAL)


def joint_freedom(parts: Array, freedom: Array, pool: float) -> Array:
    """Degrees of freedom of a sum of variances, along the last axis (Satterthwaite, Biometrics Bulletin 2, 1946).

    >>> joint_freedom(np.array([1.0, 1.0]), np.array([4.0, 4.0]), 100.0).tolist()
    8.0
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        joint = parts.sum(axis=-1) ** 2 / (parts**2 / np.maximum(freedom, 1e-9)).sum(axis=-1)
    return np.asarray(np.clip(np.where(np.isfinite(joint), joint, pool), 1.0, max(pool, 1.0)))

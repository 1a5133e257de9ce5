"""What further trials will have told before anybody has measured them: doubts fall, expectations stay.

A trial that comes out as expected changes no mean; by how much it narrows what is known does not depend on its outcome
(Rasmussen and Williams: Gaussian Processes for Machine Learning, 2006, chapter 2). So each trial that is decided on is
one more row of the Cholesky factor, and nothing is solved again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from steplab.planning.adaptive.surrogate import Surrogate

Array = np.ndarray
LEAST = 1e-12  # variance: rounding must not make it negative


@dataclass(frozen=True)
class Wanted:
    """What is to be known: the times of candidates, or their ratios to the times of others."""

    rows: Array
    bases: Array | None = None

    def of(self, values: Array) -> Array:
        """The wanted part of what is there for every candidate, candidates first."""
        return np.asarray(values[self.rows] if self.bases is None else values[self.rows] - values[self.bases])


@dataclass(frozen=True)
class Outlook:
    """Means and variances of all candidates, the covariances of what is wanted with them, and its variances."""

    surrogate: Surrogate
    wanted: Wanted
    measured: Array  # candidates that were measured or are decided on
    mean: Array
    variance: Array
    solved: Array
    cross: Array
    doubt: Array

    def believing(self, row: int) -> Outlook:
        """The same after a further trial that came out as expected."""
        every = np.arange(len(self.mean))
        column = self.surrogate.covariance(every, np.array([row]))[:, 0] - self.solved.T @ self.solved[:, row]
        step = column / np.sqrt(self.variance[row] + self.surrogate.noise)
        part = self.wanted.of(step)
        return replace(
            self, measured=np.append(self.measured, row), variance=np.maximum(self.variance - step**2, LEAST),
            solved=np.vstack([self.solved, step]), cross=self.cross - np.outer(part, step),
            doubt=np.maximum(self.doubt - part**2, LEAST),
        )  # fmt: skip


def outlook(surrogate: Surrogate, wanted: Wanted) -> Outlook:
    """What is known now."""
    every = np.arange(len(surrogate.space.frame))
    solved, before = surrogate.solved(every), surrogate.before(every)
    cross = surrogate.covariance(wanted.rows, every)
    doubt = before[wanted.rows]
    if wanted.bases is not None:
        cross = cross - surrogate.covariance(wanted.bases, every)
        together = np.diag(surrogate.covariance(wanted.rows, wanted.bases))
        doubt = doubt + before[wanted.bases] - 2 * together
    part = wanted.of(solved.T)
    return Outlook(
        surrogate, wanted, surrogate.rows, surrogate.mean(every), np.maximum(before - (solved**2).sum(0), LEAST),
        solved, cross - part @ solved, np.maximum(doubt - (part**2).sum(1), LEAST),
    )  # fmt: skip

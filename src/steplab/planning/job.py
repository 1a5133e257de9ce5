"""From a step to a job: iterations of an epoch, validation, start-up and checkpoints, every assumption said.

A job of E epochs takes  start + E·(⌈samples/batch of all workers⌉·t_iter + validation + checkpoint).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError
from steplab.core.units import seconds as shown
from steplab.models.base import PerformanceModel
from steplab.models.columns.meaning import Parts, find_parts
from steplab.models.held_out.ratio_intervals import RatioConformal
from steplab.planning.quantities import expect_positive

Array = np.ndarray
MOST = 1e18  # samples or epochs
# A backward pass takes about twice the arithmetic of a forward one, so a sample that is only passed forward costs a
# third of one that is trained on.
FORWARD_SHARE = 1 / 3


@dataclass(frozen=True)
class Job:
    """What is to be trained, and what it costs beside its steps."""

    samples: int
    epochs: int = 1
    validation_samples: int = 0  # in each epoch
    startup_s: float = 0.0
    checkpoint_s: float = 0.0  # after each epoch
    batch_size: float | None = None  # of each worker, where the model has no factor for it
    workers: float | None = None  # where the model has no factor for it

    def __post_init__(self) -> None:
        for name in ("samples", "epochs", "validation_samples"):
            if not isinstance(getattr(self, name), int | float | np.number):
                raise ModelError(f"{name} is {getattr(self, name)!r}", hint="give a number, e.g. 60000")
            if abs(getattr(self, name)) > MOST:
                raise ModelError(f"{name} is more than any job has", hint=f"allowed: at most {MOST:g}")
        expect_positive(self.samples, "the number of samples", "give the samples of an epoch, e.g. 1281167")
        expect_positive(self.epochs, "the number of epochs", "give 1 or more epochs")
        for name in ("validation_samples", "startup_s", "checkpoint_s"):
            if getattr(self, name) < 0:
                raise ModelError(f"{name} is {getattr(self, name):g}", hint="allowed: 0 or more")
        if self.batch_size is not None:
            expect_positive(self.batch_size, "the batch of a worker", "give 1 sample or more")

    def scale(self, model: PerformanceModel, frame: pd.DataFrame) -> tuple[Array, Array]:
        """Workers, and samples of one iteration of all of them, of each configuration."""
        parts = parts_of(model)
        ones = np.ones(len(frame))
        workers = frame[parts.workers].to_numpy(float) if parts.workers else ones * (self.workers or 1.0)
        if parts.batch:
            batch = frame[parts.batch].to_numpy(float)
        elif self.batch_size is not None:
            batch = ones * self.batch_size
        else:
            what = "the model has no factor that is the batch, so the iterations of an epoch are unknown"
            raise ModelError(what, hint="give batch_size, the samples of each worker in one iteration")
        return workers, batch if parts.shared else batch * workers

    def steps(self, model: PerformanceModel, frame: pd.DataFrame) -> Array:
        """Iterations' worth of time in an epoch: those that train, and validation in the same unit."""
        _, together = self.scale(model, frame)
        train = np.ceil(self.samples / together)
        return np.asarray(train + FORWARD_SHARE * np.ceil(self.validation_samples / together))

    def fixed_s(self) -> float:
        """Seconds of the whole job that no step time changes."""
        return self.startup_s + self.epochs * self.checkpoint_s

    def total_s(self, t_iter: Array, steps: Array) -> Array:
        """Seconds of the whole job at these step times."""
        return np.asarray(self.fixed_s() + self.epochs * steps * t_iter)

    def assumptions(self, model: PerformanceModel) -> tuple[str, ...]:
        """What was assumed on the way from a step to the job, each in a sentence."""
        parts = parts_of(model)
        texts = ["the step time stays what it is over the whole job"]
        if not parts.batch:
            texts.append(f"each worker takes {self.batch_size:g} samples in an iteration")
        if not parts.workers and self.workers is None:
            texts.append("the model has no factor that counts workers: one is assumed")
        if self.validation_samples:
            texts.append(f"validation passes {self.validation_samples:,} samples forward in each epoch, "
                         "each at a third of the time of one that is trained on")  # fmt: skip
        free = [] if self.validation_samples else ["validation"]
        free += [name for name, cost in (("start-up", self.startup_s), ("checkpoints", self.checkpoint_s)) if not cost]
        told = [("start-up takes", self.startup_s), ("a checkpoint after each epoch takes", self.checkpoint_s)]
        texts += [f"{name} {shown(cost)}" for name, cost in told if cost]
        if free:
            texts.append(f"{', '.join(free)}: taken as free, since nothing else is given")
        return tuple(texts)


def parts_of(model: PerformanceModel) -> Parts:
    """Which factors of a model count workers, batch and nodes; its range stands for its rows."""
    rows = pd.DataFrame({name: [low, high] for name, (low, high) in model.range_.items()})
    return find_parts(rows, model.roles_.numeric)


def require_step_time(model: PerformanceModel) -> None:
    """A plan needs a model of a time, which is always positive; say so of others."""
    if not isinstance(model.interval_, RatioConformal):
        what = f"the model's {model.target_} was zero or negative in places, so it is no step time"
        raise ModelError(what, hint="fit one with --target t_iter")

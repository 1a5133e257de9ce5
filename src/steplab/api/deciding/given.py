"""What plans are asked with: a model or its file, values of factors, a price list, a job."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from steplab.api.modelling.fitting import FittedModel, load_model
from steplab.core.errors import InputError
from steplab.core.parsing import parsing, read_text
from steplab.models.base import PerformanceModel
from steplab.planning.candidates import parse_values
from steplab.planning.job import Job
from steplab.planning.machines import Prices, parse_prices
from steplab.planning.predict import Value, parse_configuration
from steplab.planning.quantities import duration, finite

MOST_BYTES = 1 << 20
ModelLike = FittedModel | PerformanceModel | Path | str  # a fitted model, or the file of one
Fixed = Mapping[str, object] | str  # {"batch_size": 64} or "batch_size=64"
Varied = Mapping[str, Sequence[object]] | str  # {"workers": [1, 2, 4]} or "workers=1|2|4" or "workers=1..4"


def estimator(model: ModelLike) -> PerformanceModel:
    """The model itself."""
    if isinstance(model, PerformanceModel):
        return model
    return model.estimator if isinstance(model, FittedModel) else load_model(model).estimator


def fixed_values(fix: Fixed) -> dict[str, str]:
    """One value for some factors."""
    if isinstance(fix, str):
        return parse_configuration(fix) if fix.strip() else {}
    return {str(name): str(value) for name, value in fix.items()}


def values(fix: Fixed, vary: Varied) -> dict[str, list[str]]:
    """The values of the factors that are fixed or varied."""
    own = {name: [value] for name, value in fixed_values(fix).items()}
    if isinstance(vary, str):
        varied = parse_values(vary)
    else:
        varied = {str(name): [str(level) for level in levels] for name, levels in vary.items()}
    for name, levels in varied.items():
        if name in own:
            raise InputError(f"{name} is both fixed and varied", hint="give it in one of the two")
        if not levels:
            raise InputError(f"{name} has no values to look at", hint="give some, or leave it out: what was measured")
    return own | varied


def seconds_of(time: str | float, where: str) -> float:
    """A duration: seconds, or a text with its unit."""
    if isinstance(time, str):
        return duration(time, where)
    return finite(time, where, "give seconds, or a text such as 24h")


def job_of(
    samples: int | None, epochs: int, validation_samples: int, startup: str | float, checkpoint: str | float,
    batch_size: float | None,
) -> Job | None:  # fmt: skip
    """The job, if the samples of an epoch are known."""
    if samples is None:
        return None
    spent = seconds_of(startup, "startup"), seconds_of(checkpoint, "checkpoint")
    return Job(samples, epochs, validation_samples, *spent, batch_size=batch_size)


def read_prices(path: Path | str | None, machine: str = "") -> Prices | None:
    """The price list in a TOML file; files are data, nothing in it is run."""
    if path is None:
        return None
    text = read_text(Path(path), MOST_BYTES)
    with parsing("is not valid TOML", str(path)):
        document = tomllib.loads(text)
    return parse_prices(document, str(path), machine)


def described(at: Mapping[str, Value]) -> str:
    """A configuration in words."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in at.items()
    )

"""The parts of a record about its configuration, its measurement protocol and its machine.

Records of other versions, of other programs and of damaged disks must stay readable. So every field may be missing, a
field that is not known here is kept as it is, and a plain value of a wrong type counts as not known.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from steplab.core.trial import Level, accumulation

Foreign = Level | dict[str, Level] | None
Size = int | float | None


class _OpenPart(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, Foreign] = Field(init=False)

    @model_validator(mode="wrap")
    @classmethod
    def _tolerant(cls, values: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return check(values)
        except ValidationError as errors:
            wrong = {error["loc"][0] for error in errors.errors(include_url=False) if error["loc"]}
            if not isinstance(values, dict) or not all(_is_plain(values.get(name)) for name in wrong):
                raise
            return check({name: value for name, value in values.items() if name not in wrong} | cls._words(values))

    @classmethod
    def _words(cls, values: dict[str, Any]) -> dict[str, str]:
        """Numbers where words belong, as words: others may call their networks 1 and 2."""
        known = {name: values[name] for name in cls.model_fields if isinstance(values.get(name), int | float)}
        return {name: str(value) for name, value in known.items() if cls.model_fields[name].annotation in _WORDS}

    @model_serializer(mode="wrap")
    def _as_given(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What is not known is left out."""
        return {name: value for name, value in write(self).items() if name in self.model_fields_set}


_WORDS = (str, str | None)


def _is_plain(value: object) -> bool:
    values = value.values() if isinstance(value, dict) else [value]
    return all(isinstance(inner, bool | int | float | str) for inner in values)


class ResolvedInfo(_OpenPart):
    """The configuration with every default filled in; of an imported trial what its source tells."""

    framework: str | None = None
    environment: str | None = None
    network: str | None = None
    dataset: str | None = None
    batch_size: Size = None  # of each worker
    workers: Size = None
    nodes: Size = None
    ranks_per_node: Size = None
    placement: str | None = None
    rate: str | None = None
    device: str | None = None
    threads: Size = None
    strategy: str = "sync"
    optimizer: str | None = None
    learning_rate: Level | None = None
    augment: str | None = None
    loader_workers: Size = None
    prefetch: Size = None
    network_options: dict[str, Level] = {}
    framework_options: dict[str, Level] = {}

    @property
    def accumulate(self) -> int:
        """Iterations per exchange of gradients."""
        return accumulation(self.strategy)

    @property
    def step_samples(self) -> float:
        """Samples of all workers in one iteration; 0 where the sizes are not known."""
        return float(self.batch_size or 0) * float(self.workers or 0)


class MeasureInfo(_OpenPart):
    """The measurement protocol, with that of a training; of an imported trial the format it came in."""

    warmup: int | str | None = None  # iterations, or "auto"
    iterations: int | None = None
    precision: float | None = None
    max_iterations: int | None = None
    phases: bool | None = None
    timeout_s: Size = None
    retries: int | None = None
    isolation: str | None = None
    memory_limit_mb: int | None = None
    watts_per_cpu: Size = None
    epochs: int | None = None
    target_accuracy: Size = None
    validation_samples: int | None = None
    every: int | None = None
    checkpoint_every: int | None = None
    imported: str | None = None


class MachineInfo(_OpenPart):
    """The machine that the trial ran on."""

    host: str | None = None
    system: str | None = None
    cpu: str | None = None
    cores: int | None = None
    cpus: int | None = None
    mhz: Size = None
    memory_bytes: int | None = None
    gpus: str | None = None
    python: str | None = None
    boot: str | None = None  # the same for hosts that share a kernel

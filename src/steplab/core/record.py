"""A record: everything about one finished trial, immutable. Times in seconds, raw.

Format history
1  first version
2  mode `overlap`, t_md, epochs, what GPUs did, throttling, clock offsets; all optional, so that 1 stays readable
3  the environment variables that the ranks saw, steplab among the versions; optional, so that 2 stays readable
4  several hosts: each one's machine, versions and other programs, each rank's place; optional, so that 3 stays readable
   since then, optional too: `choice`, why an adaptive design chose the trial; what each rank's framework compiled;
   what its process had before the trial, and what its framework tells of its arrays
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator, model_validator
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from steplab.core.errors import RecordError
from steplab.core.record_parts import MachineInfo, MeasureInfo, ResolvedInfo
from steplab.core.trial import PLAIN_LEVELS, Kind, Level, Status, is_plain_level, trial_id

FORMAT = 4
MAX_BYTES = 1 << 30  # a larger file is not a record
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=1 << 31)]  # the tables hold 32 bits


def _quickly(values: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Times as they should be are known at a glance; only others are checked one by one, to say which is wrong."""
    plain = type(values) is list and set(map(type, values)) == {float}
    # The sum is NaN if any of them is, and infinite if any of them is.
    return values if plain and 0 <= min(values) <= sum(values) < math.inf else check(values)


H = TypeVar("H", bound="Head")
Times = Annotated[list[Seconds], WrapValidator(_quickly)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Mode(_Part):
    """The iterations of one rank in one mode, column by column; `warmup` marks those that do not count."""

    columns: dict[str, Times]
    warmup: list[bool]

    @model_validator(mode="after")
    def _even(self) -> Mode:
        if "t_iter" not in self.columns:
            raise ValueError("there is no column t_iter")
        if any(len(values) != len(self.warmup) for values in self.columns.values()):
            raise ValueError("the columns differ in length")
        return self


class LayerTime(_Part):
    """Seconds of one layer in one iteration."""

    layer: str
    iteration: Count
    t_f: Finite
    t_b: Finite


class Epoch(_Part):
    """One epoch of a training trial: its training time (validation apart) and what the network had learned after it."""

    epoch: Annotated[Count, Field(ge=1)]
    seconds: Seconds
    validation_s: Seconds
    iterations: Count
    loss: float | None
    train_accuracy: float | None
    validation_accuracy: float | None
    attempt: Count = 0  # how often the training had been continued from its checkpoint before


class Gpu(_Part):
    """What NVML saw of a rank's GPU during the trial."""

    name: str
    use: float | None = None  # share of the time, 0 to 1
    memory_bytes: float | None = None
    watts: float | None = None


class HeldBytes(_Part):
    """What a framework itself tells of its arrays; none of what it cannot."""

    parameters: Finite | None = None
    state: Finite | None = None  # of the optimiser
    peak: Finite | None = None  # the most that arrays took on the device
    reserved: Finite | None = None  # the most that its allocator had of the device


class Rank(_Part):
    """What one rank measured and used."""

    rank: Count
    host: str
    pid: int
    cpu_s: Finite
    peak_bytes: Finite
    loss: float | None
    modes: dict[str, Mode]
    layers: list[LayerTime] | None = None
    gpu: Gpu | None = None
    clock_offset_s: float | None = None  # this host's clock less rank 0's, as estimated
    local_rank: Count | None = None  # among the ranks of its host
    address: str | None = None  # where the other ranks reached it
    device: str | None = None  # that its placement gave it; empty: the framework's choice
    compile_s: Seconds | None = None  # that its framework compiled, where it can tell
    recompiled: list[str] = []  # why it compiled once more, for each time
    before_bytes: Finite | None = None  # what its process had before the trial: the framework, mostly
    held: HeldBytes | None = None  # what its framework can tell of its arrays


class Host(_Part):
    """A host that ranks ran on, as they described it."""

    host: str
    machine: MachineInfo = MachineInfo()
    versions: dict[str, str] = {}
    other_cpu_s: float | None = None  # of programs that do not belong to the trial; None if nobody could look


class Attempt(_Part):
    """One try at the trial that did not end well."""

    status: Status
    reason: str
    seconds: float


class EnvironmentInfo(_Part):
    """The environment that the ranks ran in, with every package's version."""

    name: str
    python: str
    lock: list[str]


class Variables(_Part):
    """The environment variables that change a framework, as one rank saw them."""

    seen: dict[str, str]
    own: list[str]  # those that steplab has set itself, such as the number of threads


class DataInfo(_Part):
    """The data that was read: real files, generated ones, or none."""

    name: str
    source: Literal["real", "generated", "own", "none"]  # own: from the study's own code
    samples: int
    folder: str = ""


class Energy(_Part):
    """Energy of the trial in joules with its provenance; never a silent guess."""

    joules: float | None = None
    provenance: Literal["rapl", "nvml", "estimated", "none"] = "none"


class Choice(_Part):
    """Why an adaptive design chose the trial, and in which batch."""

    batch: Count
    why: str


class Head(_Part):
    """Which trial a record is of and how it ended: what can be known without its times."""

    format: Annotated[int, Field(ge=1, le=FORMAT)] = FORMAT
    study: str
    trial: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    replicate: Count
    kind: Kind
    status: Status
    reason: str = ""
    config: dict[str, Level]
    started: str
    seconds: Finite
    choice: Choice | None = None  # of an adaptive design


class Record(Head):
    """One finished trial."""

    log_tail: str = ""
    attempts: list[Attempt] = []
    resolved: ResolvedInfo
    measure: MeasureInfo
    ranks: list[Rank] = []
    threads: Count
    versions: dict[str, str] = {}
    variables: list[Variables] = []  # of each rank
    machine: MachineInfo = MachineInfo()  # of rank 0
    hosts: list[Host] = []  # of all ranks, by rank; empty in records of format 3 and before
    environment: EnvironmentInfo | None = None
    data: DataInfo
    energy: Energy = Energy()
    other_cpu_s: float | None = None
    throttled: str | None = None  # what was seen of throttling; "" for looked and seen none, None for cannot be seen
    epochs: list[Epoch] = []  # of a training trial
    target_accuracy: float | None = None
    own_code: dict[str, str] = {}  # hashes of the study's own code: of each file, and of the network's graph
    command: str

    @model_validator(mode="after")
    def _named_rightly(self) -> Record:
        if trial_id(self.config, self.replicate) != self.trial:
            raise ValueError("the trial's id does not belong to its configuration")
        return self

    @model_validator(mode="after")
    def _plain(self) -> Record:
        for name, value in (*self.resolved, *self.config.items()):
            if not (value is None or isinstance(value, dict) or is_plain_level(value)):
                raise ValueError(f"{name} is no plain level; {PLAIN_LEVELS}")
        # Of a failed trial, too: one word would turn the whole column of a study into words.
        for name in ("batch_size", "global_batch_size", "workers", "nodes", "ranks_per_node", "threads"):
            if not _is_size(self.config.get(name, 1)):
                raise ValueError(f"config.{name} must be a number above 0")
        return self

    @model_validator(mode="after")
    def _measured(self) -> Record:
        if self.status != "ok":
            return self
        if not self.ranks or any("native" not in rank.modes for rank in self.ranks):
            raise ValueError("a trial that ended well needs ranks with native times")
        # Others may not tell their batch size; then there is no throughput.
        sizes = (
            ("workers",) if self.measure.imported and self.resolved.batch_size is None else ("batch_size", "workers")
        )
        for name in sizes:
            if not _is_size(getattr(self.resolved, name)):
                raise ValueError(f"resolved.{name} must be a number above 0")
        if not _accumulates(self.resolved):
            raise ValueError("resolved.strategy must be accumulate:k with a whole number k, or another strategy")
        return self


def _accumulates(resolved: ResolvedInfo) -> bool:
    try:
        return resolved.accumulate >= 1
    except ValueError:
        return False


def _is_size(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def parse_record(content: bytes, where: str) -> Record:
    """A record from its JSON text; anything else is one clear sentence."""
    return _parsed(Record, content, where)


def parse_head(content: bytes, where: str) -> Head:
    """The head of a record from its JSON text; its times are hardly looked at."""
    try:
        return Head.model_validate(orjson.loads(_without_ranks(content)))
    except (orjson.JSONDecodeError, ValidationError):
        return _parsed(Head, content, where)


def _without_ranks(content: bytes) -> bytes:
    """A record's text without its ranks, most of it, if it is written as records are; otherwise hardly valid JSON.

    No text within quotes can look like a field, since its own quotes are escaped. A field of that name elsewhere makes
    the cut a wrong one, with a brace too many or too few.

    >>> _without_ranks(b'{"status":"ok","ranks":[{"rank":0}],"threads":1}')
    b'{"status":"ok","threads":1}'
    """
    begin, end = content.find(b',"ranks":['), content.rfind(b',"threads":')
    return content[:begin] + content[end:] if 0 <= begin < end else content


def _parsed(kind: type[H], content: bytes, where: str) -> H:
    try:
        return kind.model_validate(orjson.loads(content))
    except (orjson.JSONDecodeError, ValidationError):
        pass  # the careful way below takes longer, and says what is wrong
    try:
        return kind.model_validate_json(content)
    except ValidationError as errors:
        error = errors.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, error["loc"])) or "the document"
        message = error["msg"].removeprefix("Value error, ")
        raise RecordError(f"is not a record: {field}: {message}", where=where) from None

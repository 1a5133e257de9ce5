"""All that the laboratory and a rank say to each other: one frozen dataclass for each message.

A message is one line of JSON: the name of its class as `message`, beside its fields. Both ends must speak the same
version of the protocol: a rank names it in its `Hello`, the laboratory in `Open`, its first order, and each refuses
another one. `Hello` and `Open` keep `message` and `protocol`, and `Failed` keeps its form, in all versions, so that a
refusal can be read; any other change of a message is a new version.

The order: `Hello`, `Open`, `Opened`; `ReadClock` and `ClockRead` as often as wanted; then trial after trial. A trial
begins with `RunTrial` and ends with `Result`. In between a rank asks and the laboratory answers when all ranks have
asked: `Block` and `Iterate`, in an exchange after `Offer` and `Offered`; in a training `Begin` and `Resume`,
`EpochEnd` and `EpochTaken`, `Saved` and `Proceed`.
Before any of its answers a member may `Meet` the others and is told, when all have come, whom it has `Met`.
Instead of anything else a rank may say `Failed`. `Close` ends it all.

Version history
1  first typed version
2  several hosts: a machine's boot, a host's busy time, a member's device
3  trials of kind `exchange`: where the first rank listens
4  seconds of layers by layer, not row by row; whether blocks are recomputed; what was compiled
5  what a process had before a trial, and what its framework counts of its arrays
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Literal, Mapping, Optional, Type, TypeVar

from steplab_worker import codec
from steplab_worker.codec import ANY_FLOAT, COUNT, DIFFERENCE, PORT, POSITIVE, SECONDS, ProtocolError
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.machine import Machine

PROTOCOL = 5
BYTES = {"limits": codec.Limits(0.0, 1e18)}
TYPE = "message"  # the field that names a message's class
ModeName = Literal["native", "phased", "overlap"]
FailedStatus = Literal["failed", "out-of-memory", "unsupported"]


@dataclass(frozen=True)
class Message:
    """One line, in either direction."""


M = TypeVar("M", bound=Message)


# What a rank says.


@dataclass(frozen=True)
class Hello(Message):
    """The first line of a member of the group; the token shows that it is one."""

    rank: int = field(metadata=COUNT)
    pid: int = field(metadata=POSITIVE)
    token: str
    machine: Machine  # that it runs on
    protocol: int = PROTOCOL

    @property
    def host(self) -> str:
        """The name of the host that it runs on."""
        return self.machine.host


@dataclass(frozen=True)
class AmbientVariables:
    """The environment variables that change a framework, and which of them steplab has set itself."""

    seen: Dict[str, str]
    own: List[str]


@dataclass(frozen=True)
class Opened(Message):
    """The framework is imported and the group has met: trials may come."""

    versions: Dict[str, str]
    cpus: int = field(metadata=COUNT)  # that this process may run on
    variables: AmbientVariables


@dataclass(frozen=True)
class Meet(Message):
    """This member has come to the rendezvous; others may reach it at that port, if it is not 0."""

    port: int = field(default=0, metadata=PORT)


@dataclass(frozen=True)
class ClockRead(Message):
    """What this rank's clock shows, in seconds."""

    at: float = field(metadata=DIFFERENCE)


@dataclass(frozen=True)
class Block(Message):
    """Seconds of a block of iterations, none before the first one of a mode; it asks how many to run next."""

    mode: ModeName
    t_iter: List[float] = field(metadata=SECONDS)


@dataclass(frozen=True)
class Offer(Message):
    """`host:port` at which another rank of the trial may call this one; empty: nowhere. It asks for those of all."""

    address: str


@dataclass(frozen=True)
class EpochRow:
    """One epoch of a training, as its record and its checkpoints hold it. None: not known."""

    epoch: int = field(metadata=POSITIVE)
    seconds: float = field(metadata=SECONDS)
    validation_s: float = field(metadata=SECONDS)
    iterations: int = field(metadata=COUNT)
    loss: Optional[float]
    train_accuracy: Optional[float]
    validation_accuracy: Optional[float]
    attempt: int = field(metadata=COUNT)


@dataclass(frozen=True)
class Begin(Message):
    """The epochs of the newest checkpoint that this rank can read, and what is wrong with newer ones."""

    epochs: List[EpochRow]
    notes: List[str]


@dataclass(frozen=True)
class Accuracies:
    """What the network had learned after an epoch, and how long the look at the validation samples took."""

    validation_s: float = field(metadata=SECONDS)
    validation: float
    training: float


@dataclass(frozen=True)
class EpochEnd(Message):
    """An epoch has been trained; it asks whether to go on."""

    epoch: int = field(metadata=COUNT)
    attempt: int = field(metadata=COUNT)
    t_iter: List[float] = field(metadata=SECONDS)
    loss: float = field(metadata=ANY_FLOAT)  # a training may diverge
    accuracies: Optional[Accuracies] = None  # of rank 0, after those epochs that are looked at

    def __post_init__(self) -> None:
        if not self.t_iter:
            raise ValueError("t_iter: an epoch has at least one iteration")


@dataclass(frozen=True)
class Saved(Message):
    """The checkpoint is written, or the notes say why not."""

    notes: List[str]


@dataclass(frozen=True)
class ModeTimes:
    """The iterations of one mode, column by column; `warmup` marks those that do not count."""

    columns: Dict[str, List[float]] = field(metadata=SECONDS)
    warmup: List[bool]

    def __post_init__(self) -> None:
        if "t_iter" not in self.columns:
            raise ValueError("columns: there is no column t_iter")
        if any(len(values) != len(self.warmup) for values in self.columns.values()):
            raise ValueError("columns: they differ in length")


@dataclass(frozen=True)
class LayerSeconds:
    """Seconds of one layer, iteration by iteration."""

    t_f: List[float] = field(metadata=DIFFERENCE)
    t_b: List[float] = field(metadata=DIFFERENCE)

    def __post_init__(self) -> None:
        if len(self.t_f) != len(self.t_b):
            raise ValueError("t_b: there are %d of %d iterations" % (len(self.t_b), len(self.t_f)))


@dataclass(frozen=True)
class Held:
    """Bytes that a framework itself can tell of a trial; None of what it cannot."""

    parameters: Optional[float] = field(default=None, metadata=BYTES)
    state: Optional[float] = field(default=None, metadata=BYTES)  # of the optimiser
    peak: Optional[float] = field(default=None, metadata=BYTES)  # the most that arrays took on the device
    reserved: Optional[float] = field(default=None, metadata=BYTES)  # the most that its allocator had of the device


@dataclass(frozen=True)
class Usage:
    """What a trial took of the machine."""

    cpu_s: float = field(metadata=DIFFERENCE)
    peak_bytes: float = field(metadata=BYTES)
    host_s: Optional[float] = field(default=None, metadata=SECONDS)  # CPU seconds of all programs of the host
    before_bytes: Optional[float] = field(default=None, metadata=BYTES)  # what the process had before the trial
    held: Optional[Held] = None


@dataclass(frozen=True)
class Compiled:
    """What a framework compiled in a trial: seconds, and why it did so once more, for each time."""

    seconds: float = field(metadata=SECONDS)
    again: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Measurement:
    """The raw times of one trial in one rank, the last loss, and how layers and overlap were measured."""

    modes: Dict[str, ModeTimes]
    loss: float = field(metadata=ANY_FLOAT)
    layers: Optional[Dict[str, LayerSeconds]] = None
    methods: Dict[str, str] = field(default_factory=dict)
    compiled: Optional[Compiled] = None  # None if nothing was, or if nobody can tell

    def __post_init__(self) -> None:
        if "native" not in self.modes:
            raise ValueError("modes: there are no native times")


@dataclass(frozen=True)
class Result(Message):
    """The trial ended well."""

    measurement: Measurement
    usage: Usage


@dataclass(frozen=True)
class Failed(Message):
    """The rank could not do what it was told; the reason in a line."""

    status: FailedStatus
    reason: str
    traceback: str = ""


# What the laboratory says.


@dataclass(frozen=True)
class Open(Message):
    """What this process is for as long as it lives."""

    group: GroupJob
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class Met(Message):
    """All members have come: `host:port` of each by its number, empty where it offers none."""

    addresses: List[str]


@dataclass(frozen=True)
class ReadClock(Message):
    """Say what the clock shows."""


@dataclass(frozen=True)
class RunTrial(Message):
    """Run this trial."""

    job: TrialJob


@dataclass(frozen=True)
class Iterate(Message):
    """Run so many iterations; after the last ones, or none, the mode has ended."""

    iterations: int = field(metadata=COUNT)
    warmup: bool
    last: bool


@dataclass(frozen=True)
class Offered(Message):
    """What each rank has offered, by its number."""

    addresses: List[str]


@dataclass(frozen=True)
class Resume(Message):
    """Go on after that epoch, 0 to start afresh; or there is no more to do."""

    epoch: int = field(metadata=COUNT)
    go_on: bool


@dataclass(frozen=True)
class EpochTaken(Message):
    """The epoch as it is written down. Rank 0 saves the times of all ranks with it, the others get none."""

    row: EpochRow
    go_on: bool
    save: bool
    t_iter: List[List[float]] = field(default_factory=list, metadata=SECONDS)


@dataclass(frozen=True)
class Proceed(Message):
    """All ranks have come so far."""


@dataclass(frozen=True)
class Close(Message):
    """No more trials."""


FROM_RANK = (Hello, Opened, Meet, ClockRead, Block, Offer, Begin, EpochEnd, Saved, Result, Failed)
TO_RANK = (Open, Met, ReadClock, RunTrial, Iterate, Offered, Resume, EpochTaken, Proceed, Close)
Kinds = Mapping[str, Type[Message]]
RANK_MESSAGES: Kinds = {kind.__name__: kind for kind in FROM_RANK}
LABORATORY_MESSAGES: Kinds = {kind.__name__: kind for kind in TO_RANK}


def encode(message: Message) -> bytes:
    """A message as a line."""
    return codec.encoded(dict(codec.fields(message), **{TYPE: type(message).__name__})) + b"\n"


def decode(line: bytes, kinds: Kinds) -> Message:
    """The message in a line, one of these kinds; anything else is a ProtocolError."""
    document = codec.parsed(line)
    name = document.pop(TYPE, None)
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ProtocolError("sent %s, which is no message" % ("%.40r" % name if name is not None else "no name"))
    if kind in (Hello, Open):
        _check_protocol(document.get("protocol"))
    try:
        return codec.decoded(kind, document)
    except ProtocolError as error:
        raise ProtocolError("sent a wrong %s: %s" % (name, error)) from None


def _check_protocol(spoken: object) -> None:
    if type(spoken) is not int or spoken != PROTOCOL:
        version = spoken if type(spoken) is int else "without a version"
        raise ProtocolError(
            "speaks protocol %s, this side %d; the same version of steplab is needed on both" % (version, PROTOCOL)
        )


def expected(message: Message, kind: Type[M]) -> M:
    """The message, if it is of that kind."""
    if not isinstance(message, kind):
        raise ProtocolError("sent %s where %s was due" % (type(message).__name__, kind.__name__))
    return message

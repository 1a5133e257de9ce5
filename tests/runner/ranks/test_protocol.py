"""Ranks that do not keep to the protocol: whatever they send, and whenever, the trial ends as a record.

The ranks are played: real lines and the real conversation, no processes. Each answers rightly up to a moment.
"""

from __future__ import annotations

import contextlib
import json
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.core.measurement import Measure
from steplab.core.record import DataInfo, Record, parse_record
from steplab.core.trial import Status, trial_id
from steplab.kinds.blocks import BlockDirector
from steplab.kinds.train import Train, TrainingDirector
from steplab.runner.ranks import channel, conversation
from steplab.runner.ranks.channel import Lines, Received
from steplab.runner.ranks.conversation import Conversation, Failure, Outcome
from steplab.runner.ranks.group import Ended, GroupKey
from steplab.runner.ranks.group_folder import GroupFolder
from steplab.runner.ranks.rank_record import rank_part
from steplab.store.records import record_json
from steplab_worker import transport
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.machine import machine
from steplab_worker.messages import (
    LABORATORY_MESSAGES,
    PROTOCOL,
    AmbientVariables,
    Begin,
    Block,
    ClockRead,
    EpochEnd,
    EpochTaken,
    Failed,
    Hello,
    Iterate,
    Measurement,
    Meet,
    Message,
    ModeTimes,
    Open,
    Opened,
    Proceed,
    ReadClock,
    Result,
    Resume,
    RunTrial,
    Saved,
    Usage,
    decode,
    encode,
)  # fmt: skip

PATIENCE_S = 0.1  # for a rank that says nothing more; what comes later is a timeout, a record like others
HANGS_S = 60.0  # nothing here takes that long, however busy the machine
JOB = TrialJob(
    "t", 0, "step", {}, "mlp", {}, (1, 28, 28), 10, "mnist", "", 4, 1, "sync", "sgd", 0.1, 0, 1, {}, False, 0, 1
)
CONFIG = {"framework": "synthetic", "workers": 2}
Spoil = Callable[[bytes], bytes]


def right(line: bytes) -> bytes:
    """What a rank sends if all is well."""
    return line


@dataclass
class Player:
    """One rank: answers each message of the laboratory; the line of number `moment` is spoilt, or the last it sends."""

    rank: int
    token: str
    moment: int = -1
    spoil: Spoil = right
    falls_silent: bool = False
    sent: int = 0
    times: list[float] = field(default_factory=list)
    last: bool = False

    def connect(self, address: str) -> None:
        self.socket = transport.connect(address)
        self.received = self.socket.makefile("rb")
        self.say(Hello(self.rank, 4000 + self.rank, self.token, machine()))

    def say(self, message: Message) -> None:
        if self.falls_silent and self.sent > self.moment >= 0:
            return
        line = encode(message)
        with contextlib.suppress(OSError):  # the laboratory has closed the line
            self.socket.sendall(self.spoil(line) if self.sent == self.moment else line)
        self.sent += 1

    def react(self) -> None:
        self.say(self.answer(decode(self.received.readline(), LABORATORY_MESSAGES)))

    def answer(self, order: Message) -> Message:
        if isinstance(order, Open):
            return Opened({"synthetic": "1"}, 2, AmbientVariables({"OMP_NUM_THREADS": "1"}, []))
        if isinstance(order, ReadClock):
            return ClockRead(0.5)
        if isinstance(order, RunTrial):
            return Block("native", []) if order.job.kind == "step" else Begin([], [])
        return self._iterated(order) if isinstance(order, Iterate) else self._trained(order)

    def _iterated(self, order: Iterate) -> Message:
        if self.last:
            return self._result()
        self.times += [0.25] * order.iterations
        self.last = order.last
        return self._result() if order.last or not order.iterations else Block("native", [0.25] * order.iterations)

    def _trained(self, order: Message) -> Message:
        if isinstance(order, EpochTaken):
            self.last = not order.go_on
            if order.save:
                return Saved([])
        elif isinstance(order, Resume):
            self.last = not order.go_on
        assert isinstance(order, EpochTaken | Resume | Proceed)
        if self.last:
            return self._result()
        self.times += [0.25] * 3
        return EpochEnd(len(self.times) // 3, 0, [0.25] * 3, 1.0)

    def _result(self) -> Result:
        times = ModeTimes({"t_iter": self.times}, [False] * len(self.times))
        return Result(Measurement({"native": times}, 0.5), Usage(1.0, 1e6))

    def close(self) -> None:
        self.received.close()
        self.socket.close()


class PlayedGroup:
    """A group of players, as the conversation knows groups."""

    awaited = ""

    def __init__(self, players: Sequence[Player], folder: GroupFolder) -> None:
        self.key = GroupKey("synthetic", "", len(players), 1, len(players))
        self.versions: dict[str, str] = {}
        self.variables: dict[int, AmbientVariables] = {}
        self.players, self.lines = players, Lines(folder.channel, folder.token, len(players))
        self.began, self.ended = time.monotonic(), 0
        for player in players:
            player.connect(self.lines.address)

    @property
    def hello(self) -> dict[int, Hello]:
        return self.lines.hello

    def name(self, number: int) -> str:
        return f"rank {number}"

    def tail(self, number: int) -> str:
        return f"what rank {number} printed"

    def first_order(self, rank: int) -> Open:
        return Open(GroupJob("synthetic", rank, len(self.players), 1, ()))

    def send(self, rank: int, message: Message) -> None:
        self.lines.send(rank, message)
        self.players[rank].react()

    def receive(self, deadline: float) -> Received | Ended | None:
        assert time.monotonic() < self.began + HANGS_S, "the conversation has no end"
        while not self.lines.inbox:
            if len(self.lines.silent) > self.ended:
                self.ended += 1
                return Ended(self.lines.silent[self.ended - 1], 1)
            if not self.lines.wait(deadline - time.monotonic()):
                return None
        return self.lines.inbox.popleft()

    def close(self) -> None:
        for player in self.players:
            player.close()
        self.lines.close()


@contextlib.contextmanager
def played(**rogue: Any) -> Iterator[PlayedGroup]:
    """Two ranks; rank 1, or the one that is named, does not keep to the protocol."""
    folder = GroupFolder()
    number = rogue.pop("rank", 1)
    players = [Player(rank, folder.token, **(rogue if rank == number else {})) for rank in range(2)]
    group = PlayedGroup(players, folder)
    try:
        yield group
    finally:
        group.close()
        folder.remove()


def outcome_of(
    group: PlayedGroup, kind: str = "step", patience_s: float = PATIENCE_S, start_s: float = HANGS_S
) -> Outcome:
    """A whole conversation, from the first greeting to the result."""
    talk = Conversation(group, time.monotonic() + start_s, lambda: None)  # type: ignore[arg-type]
    failure = talk.open()
    if failure is not None:
        return Outcome(failure=failure)
    talk.deadline = time.monotonic() + patience_s
    if kind == "train":
        director: Any = TrainingDirector(Train(epochs=3, checkpoint_every=2), patience_s)
    else:
        director = BlockDirector(Measure(iterations=4, warmup=1, precision=0.1), 1)
    return talk.trial(TrialJob(**{**vars(JOB), "kind": kind}), director)


def record_of(group: PlayedGroup, outcome: Outcome) -> Record:
    """The record of a trial that ended so, after a way through its file."""
    failure = outcome.failure
    offsets = outcome.clock_offsets_s
    ranks = [rank_part(group.hello[rank], outcome.results[rank], offsets[rank], None) for rank in outcome.results]
    record = Record(
        study="s", trial=trial_id(CONFIG, 0), replicate=0, kind="step", status=failure.status if failure else "ok",
        reason=failure.reason if failure else "", log_tail=failure.log_tail if failure else "", config=CONFIG,
        resolved={**CONFIG, "batch_size": 4}, measure={}, ranks=ranks, threads=1, started="", seconds=1.0, command="",
        data=DataInfo(name="mnist", source="none", samples=0), versions=group.versions,
    )  # type: ignore[arg-type] # fmt: skip
    return parse_record(record_json(record), "r.json")


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else's failure explains a played one, and a line is too long sooner."""
    monkeypatch.setattr(conversation, "EVIDENCE_S", 0.0)
    monkeypatch.setattr(channel, "MESSAGE_BYTES", 50_000)


@pytest.mark.parametrize("kind", ["step", "train"])
def test_ranks_that_keep_to_the_protocol_end_well(kind: str) -> None:
    with played() as group:
        outcome = outcome_of(group, kind, HANGS_S)
        assert outcome.failure is None
        assert record_of(group, outcome).ranks[1].modes["native"].columns["t_iter"][0] == 0.25


HELLO, OPENED, FIRST_BLOCK, SECOND_BLOCK = 0, 1, 2, 3  # what rank 1 sends; the clock of its host is rank 0's


def instead(message: Message) -> Spoil:
    return lambda line: encode(message)


def before(message: Message) -> Spoil:
    return lambda line: encode(message) + line


def after(message: Message) -> Spoil:
    return lambda line: line + encode(message)


def changed(**fields: object) -> Spoil:
    return lambda line: json.dumps({**json.loads(line), **fields}).encode() + b"\n"


RESULT = Player(1, "")._result()


@pytest.mark.parametrize(
    ("moment", "spoil", "reason"),
    [
        (
            HELLO,
            changed(protocol=PROTOCOL + 1),
            "speaks protocol 6, this side 5; the same version of steplab is needed",
        ),
        (HELLO, changed(pid="x"), "sent a wrong Hello: pid: is 'x', where a whole number is due"),
        (HELLO, lambda line: line * 2, "sent a second Hello"),
        (HELLO, after(Block("native", [])), "sent Block where Opened was due"),
        (OPENED, instead(ClockRead(1.0)), "sent ClockRead where Opened was due"),
        (OPENED, lambda line: line * 2, "sent Opened "),
        (OPENED, after(RESULT), "sent Result "),
        (FIRST_BLOCK, lambda line: b"nonsense\n", "sent what is no JSON"),
        (FIRST_BLOCK, instead(RESULT), "sent Result where Block was due"),
        (FIRST_BLOCK, instead(Begin([], [])), "sent Begin where Block was due"),
        (FIRST_BLOCK, instead(Block("phased", [])), "sent a block of mode phased out of turn"),
        (FIRST_BLOCK, instead(Block("native", [1.0])), "sent 1 times of mode native where 0 were due"),
        (FIRST_BLOCK, lambda line: line * 2, "sent 0 times of mode native where 1 were due"),
        (SECOND_BLOCK, instead(Block("native", [])), "sent 0 times of mode native where 1 were due"),
        (SECOND_BLOCK, instead(Block("native", [1.0, 1.0])), "sent 2 times of mode native where 1 were due"),
        (SECOND_BLOCK, changed(t_iter=["fast"]), "sent a wrong Block: t_iter.0: is 'fast', where a number is due"),
        (SECOND_BLOCK, changed(t_iter=[-1.0]), "sent a wrong Block: t_iter.0: is -1.0, which is not from 0.0"),
        (SECOND_BLOCK, instead(Hello(1, 1, "", machine())), "sent a second Hello"),
        (SECOND_BLOCK, lambda line: b"[" * 60_000, "sent a line without an end"),
        (SECOND_BLOCK, instead(Failed("unsupported", "no such thing")), "no such thing"),
    ],
)
def test_what_a_rank_does_wrong_is_the_reason(moment: int, spoil: Spoil, reason: str) -> None:
    with played(moment=moment, spoil=spoil) as group:
        outcome = outcome_of(group, patience_s=HANGS_S)
        assert outcome.failure is not None
        assert outcome.failure.reason.startswith(f"rank 1: {reason}")
        assert record_of(group, outcome).status in ("failed", "unsupported")


def test_results_of_ranks_that_have_not_measured_what_they_were_told_are_none() -> None:
    with played() as group:
        group.players[0].answer = group.players[1].answer = lambda order: (  # type: ignore[method-assign]
            RESULT if isinstance(order, RunTrial) else Player.answer(group.players[0], order)
        )
        failure = outcome_of(group, patience_s=HANGS_S).failure
    assert failure is not None
    assert failure.reason == "rank 0: sent a Result of 0 native iterations where no iterations were due"


@pytest.mark.parametrize(("epochs_of", "status"), [(0.5, "ok"), (1.5, "timeout")])
def test_each_epoch_has_a_deadline_of_its_own(monkeypatch: pytest.MonkeyPatch, epochs_of: float, status: str) -> None:
    """Three epochs together are beyond it in both cases; the clock is put forward with the end of each."""
    deadline_s, clock = 10 * HANGS_S, types.SimpleNamespace(**vars(time), ahead=0.0)
    clock.monotonic = lambda: time.monotonic() + clock.ahead
    monkeypatch.setattr(conversation, "time", clock)
    with played() as group:
        receive = group.receive

        def after_an_epoch(deadline: float) -> Received | Ended | None:
            event = receive(deadline)
            if isinstance(event, Received) and event.rank == 0 and isinstance(event.message, EpochEnd):
                clock.ahead += epochs_of * deadline_s
            return event

        group.receive = after_an_epoch  # type: ignore[method-assign]
        failure = outcome_of(group, "train", deadline_s).failure
    assert (failure.status if failure else "ok") == status


def test_half_a_line_is_waited_for_until_the_deadline() -> None:
    with played(moment=SECOND_BLOCK, spoil=lambda line: line[:10], falls_silent=True) as group:
        failure = outcome_of(group).failure
    assert failure == Failure("timeout", "no answer in time in the trial", 0, "what rank 0 printed")


def test_a_rank_without_end_is_stopped_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that is always right."""
    monkeypatch.setattr(BlockDirector, "_measured_left", lambda director: 1)
    with played() as group:
        failure = outcome_of(group).failure
    assert failure is not None
    assert failure.status == "timeout"


SAMPLES: list[Message] = [
    Hello(1, 1, "t", machine()), Meet(7), Opened({}, 0, AmbientVariables({}, [])), ClockRead(-1.0), Block("native", []),
    Block("native", [1.0]), Block("overlap", []), Begin([], ["note"]), EpochEnd(1, 0, [1.0], float("nan")),
    EpochEnd(2, 9, [1.0] * 3, float("inf")), Saved(["note"]), RESULT, Failed("out-of-memory", "\ud800\n" * 9, "t"),
]  # fmt: skip
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


def with_value_at(place: int, value: object) -> Spoil:
    """Another value somewhere in the message."""

    def spoil(line: bytes) -> bytes:
        document = json.loads(line)
        holders = list(_holders(document))
        holder, key = holders[place % len(holders)]
        holder[key] = value
        return json.dumps(document).encode() + b"\n"

    return spoil


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(inside):
        yield value, key
        yield from _holders(inner)


SPOILS = st.one_of(
    st.binary(max_size=100).map(lambda nonsense: lambda line: nonsense + b"\n"),
    st.binary(max_size=100).map(lambda nonsense: lambda line: nonsense + line),
    st.integers(2, 30).map(lambda times: lambda line: line * times),
    st.floats(0, 1).map(lambda share: lambda line: line[: int(share * len(line))]),
    st.sampled_from([instead, before, after]).flatmap(lambda way: st.sampled_from(SAMPLES).map(way)),
    st.builds(with_value_at, st.integers(0, 100), JSON),
    st.just(lambda line: b"x" * 60_000),
)


@settings(max_examples=250)
@given(
    rank=st.integers(0, 1),
    moment=st.integers(0, 12),
    spoil=SPOILS,
    falls_silent=st.booleans(),
    kind=st.sampled_from(["step", "train"]),
)
def test_whatever_a_rank_sends_ends_as_a_record(
    rank: int, moment: int, spoil: Spoil, falls_silent: bool, kind: str
) -> None:
    with played(rank=rank, moment=moment, spoil=spoil, falls_silent=falls_silent) as group:
        outcome = outcome_of(group, kind, start_s=PATIENCE_S)
        record = record_of(group, outcome)
    assert record.status in get_args(Status)
    assert (record.status == "ok") == (outcome.failure is None)
    assert record.reason or record.status == "ok"
    assert len(record.reason) < 6000

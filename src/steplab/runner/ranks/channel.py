"""The laboratory's end of the lines to its ranks: one message per line, over a Unix socket or TCP.

Who does not begin with the group's token is nobody: that line is closed, and the trial goes on. What a member sends and
is no message is its failure.
"""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
from collections import deque
from dataclasses import dataclass, field

from steplab.core.errors import EnvironmentFault
from steplab_worker import codec, transport
from steplab_worker.codec import ProtocolError
from steplab_worker.messages import RANK_MESSAGES, Failed, Hello, Message, decode, encode

CHUNK_BYTES = 1 << 20
GREETING_BYTES = 4096  # a longer first line is no greeting
MESSAGE_BYTES = 1 << 30  # a longer line is no message
SEND_S = 10.0
MOST_STRANGERS = 64  # lines that have not greeted; beyond that the oldest is closed


@dataclass(frozen=True)
class Received:
    """A member sent a message."""

    rank: int
    message: Message


@dataclass
class _Line:
    """A connection; it is a stranger's until its member is known."""

    connection: socket.socket
    member: int | None = None
    pending: bytearray = field(default_factory=bytearray)

    @property
    def limit(self) -> int:
        return GREETING_BYTES if self.member is None else MESSAGE_BYTES

    def lines(self, chunk: bytes) -> list[bytes]:
        """The lines that the chunk completes."""
        first, *rest = chunk.split(b"\n")
        self.pending += first
        if not rest:
            return []
        complete = [bytes(self.pending), *rest[:-1]]
        self.pending = bytearray(rest[-1])
        return complete


class Lines:
    """All lines of one group. What members say waits in `inbox`; `silent` are those whose line has ended, in order."""

    def __init__(self, address: str, token: str, members: int) -> None:
        self.inbox: deque[Received] = deque()
        self.silent: list[int] = []
        self.hello: dict[int, Hello] = {}
        self._members, self._token = members, token
        self._known: dict[int, _Line] = {}
        self._strangers: list[_Line] = []
        self._selector = selectors.DefaultSelector()
        self._listener, self.address = transport.listen(address, members + MOST_STRANGERS)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def wait(self, seconds: float) -> bool:
        """Read what comes within that time; False if nothing did."""
        events = self._selector.select(max(0.0, seconds))
        for key, _ in events:
            self._accept() if key.data is None else self._read(key.data)
        return bool(events)

    def send(self, rank: int, message: Message) -> None:
        """Send a message; a rank that is gone shows by its end, not here."""
        connection = self._known[rank].connection
        with contextlib.suppress(OSError):
            connection.settimeout(SEND_S)  # a stopped rank takes nothing; its trial's deadline will tell
            connection.sendall(encode(message))
        with contextlib.suppress(OSError):
            connection.setblocking(False)

    def connected(self) -> list[int]:
        """The members that have greeted."""
        return list(self._known)

    def connection(self, rank: int) -> socket.socket | None:
        """A member's line while it is open."""
        connection = self._known[rank].connection if rank in self._known and rank not in self.silent else None
        return connection if connection is not None and connection.fileno() >= 0 else None

    def close(self) -> None:
        """Close everything."""
        for line in [*self._known.values(), *self._strangers]:
            line.connection.close()
        self._listener.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            connection = transport.accept(self._listener)
        except BlockingIOError:
            return  # whoever it was has gone again
        except OSError as error:
            what = f"the laboratory cannot take the line of a rank ({error.strerror})"
            raise EnvironmentFault(f"{what}; fewer workers, or a higher limit of open files (ulimit -n)") from None
        connection.setblocking(False)
        line = _Line(connection)
        self._strangers.append(line)
        self._selector.register(connection, selectors.EVENT_READ, line)
        if len(self._strangers) > MOST_STRANGERS:
            self._drop(self._strangers[0])

    def _read(self, line: _Line) -> None:
        try:
            chunk = line.connection.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._end(line)
            return
        for text in line.lines(chunk):
            self._take(line, text)
        if len(line.pending) > line.limit:
            self._refuse(line, "sent a line without an end")

    def _end(self, line: _Line) -> None:
        if line.member is None:
            self._drop(line)
            return
        self._selector.unregister(line.connection)
        self.silent.append(line.member)

    def _drop(self, line: _Line) -> None:
        """Close a stranger's line."""
        if line in self._strangers:
            self._strangers.remove(line)
            self._selector.unregister(line.connection)
            line.connection.close()

    def _take(self, line: _Line, text: bytes) -> None:
        if line.member is not None:
            message = _message(text)
            again = isinstance(message, Hello)
            self.inbox.append(Received(line.member, Failed("failed", "sent a second Hello") if again else message))
        elif line in self._strangers:
            self._greet(line, text)

    def _greet(self, line: _Line, text: bytes) -> None:
        """Who knows the token is a member, even one that greets wrongly otherwise: then it has failed."""
        rank = self._member(text) if len(text) <= line.limit else None
        if rank is None:
            self._drop(line)
            return
        self._strangers.remove(line)
        line.member, self._known[rank] = rank, line
        message = _message(text)
        if isinstance(message, Hello):
            self.hello[rank] = message
        self.inbox.append(Received(rank, message))

    def _member(self, text: bytes) -> int | None:
        """The number of the member who greets; None for a stranger, or for one who greets in another's place."""
        try:
            greeting = codec.parsed(text)
        except ProtocolError:
            return None
        token, rank = greeting.get("token"), greeting.get("rank")
        right = isinstance(token, str) and token.isascii() and hmac.compare_digest(token, self._token)
        free = type(rank) is int and 0 <= rank < self._members and rank not in self._known
        return rank if right and free else None

    def _refuse(self, line: _Line, what: str) -> None:
        """Nonsense of a member is its failure; a stranger's line is closed."""
        if line.member is None:
            self._drop(line)
            return
        line.pending.clear()
        self.inbox.append(Received(line.member, Failed("failed", what)))


def _message(text: bytes) -> Message:
    """What a member sent; what is no message is its failure."""
    try:
        return decode(text, RANK_MESSAGES)
    except ProtocolError as error:
        return Failed("failed", str(error))

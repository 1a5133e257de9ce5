"""The worker's own line to the laboratory: one message per line over a socket, never stdout.

A thread reads the line. When the laboratory goes away, for whatever reason, the line ends, and the rank kills its
whole process group: no orphan survives, even while the main thread sits in a collective.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import threading
from typing import Type, Union

from steplab_worker.codec import ProtocolError
from steplab_worker.launched import TOKEN
from steplab_worker.messages import LABORATORY_MESSAGES, M, Message, decode, encode, expected
from steplab_worker.transport import connect


class Channel:
    """A connection to the laboratory; the token in the group's folder shows that this process belongs to the group."""

    def __init__(self, address: str, room: str):
        self._room = room
        with open(os.path.join(room, TOKEN), encoding="ascii") as file:
            self.token = file.read()
        self._socket = connect(address)
        self._inbox: "queue.Queue[Union[Message, ProtocolError]]" = queue.Queue()
        threading.Thread(target=self._listen, name="steplab-channel", daemon=True).start()

    def send(self, message: Message) -> None:
        """Send a message."""
        self._socket.sendall(encode(message))

    def receive(self) -> Message:
        """Wait for the laboratory's next message; a line that is none is a ProtocolError."""
        received = self._inbox.get()
        if isinstance(received, ProtocolError):
            raise received
        return received

    def ask(self, message: Message, answer: Type[M]) -> M:
        """Send a message and wait for its answer, which must be of that kind."""
        self.send(message)
        received = self.receive()
        try:
            return expected(received, answer)
        except ProtocolError as error:
            raise ProtocolError("the laboratory %s" % error) from None

    def _listen(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    self._inbox.put(_received(line))
        finally:
            shutil.rmtree(self._room, ignore_errors=True)
            os.killpg(0, signal.SIGKILL)


def _received(line: bytes) -> Union[Message, ProtocolError]:
    try:
        return decode(line, LABORATORY_MESSAGES)
    except ProtocolError as error:
        return ProtocolError("the laboratory %s" % error)

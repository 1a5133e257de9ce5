"""The worker's own line to the laboratory: one message per line over a socket, never stdout.

A thread reads the line. When the laboratory goes away, for whatever reason, the line ends, and the rank kills its
whole process group: no orphan survives, even while the main thread sits in a collective.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import socket
import threading
from typing import Iterator, Type, Union

from steplab_worker.codec import ProtocolError
from steplab_worker.messages import LABORATORY_MESSAGES, M, Message, decode, encode, expected

LONGEST_ADDRESS = 107  # bytes in the address of a Unix socket


@contextlib.contextmanager
def short_address(path: str) -> Iterator[str]:
    """An address for a socket whose path may be longer than an address can be, as in a cluster's temporary folders."""
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        yield "/proc/self/fd/%d/%s" % (folder, os.path.basename(path))
    finally:
        os.close(folder)


class Channel:
    """A connection to the laboratory's socket; the token beside it shows that this process belongs to the group."""

    def __init__(self, path: str):
        self._path = path
        with open(os.path.join(os.path.dirname(path), "token"), encoding="ascii") as file:
            self.token = file.read()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_address(path) as address:
            self._socket.connect(address)
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
        return expected(self.receive(), answer)

    def _listen(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    self._inbox.put(_received(line))
        finally:
            shutil.rmtree(os.path.dirname(self._path), ignore_errors=True)
            os.killpg(0, signal.SIGKILL)


def _received(line: bytes) -> Union[Message, ProtocolError]:
    try:
        return decode(line, LABORATORY_MESSAGES)
    except ProtocolError as error:
        return ProtocolError("the laboratory %s" % error)

"""The worker's own line to the laboratory: one JSON document per line over a socket, never stdout.

A thread reads the line. When the laboratory goes away, for whatever reason, the line ends, and the rank kills its
whole process group: no orphan survives, even while the main thread sits in a collective.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import threading
from typing import Any, Dict, Iterator

Document = Dict[str, Any]


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
        self._inbox: "queue.Queue[Document]" = queue.Queue()
        threading.Thread(target=self._listen, name="steplab-channel", daemon=True).start()

    def send(self, document: Document) -> None:
        """Send one document."""
        self._socket.sendall(json.dumps(document, separators=(",", ":")).encode() + b"\n")

    def receive(self) -> Document:
        """Wait for the laboratory's next document."""
        return self._inbox.get()

    def ask(self, document: Document) -> Document:
        """Send a document and wait for the answer."""
        self.send(document)
        return self.receive()

    def _listen(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    self._inbox.put(json.loads(line.decode()))
        finally:
            shutil.rmtree(os.path.dirname(self._path), ignore_errors=True)
            os.killpg(0, signal.SIGKILL)

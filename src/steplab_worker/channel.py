"""The worker's own line to the laboratory: one JSON document per line over a socket, never stdout.

A thread reads the line. When the laboratory goes away, for whatever reason, the line ends, and the rank kills its
whole process group: no orphan survives, even while the main thread sits in a collective.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import socket
import threading
from typing import Any, Dict

Document = Dict[str, Any]


class Channel:
    """A connection to the laboratory's socket."""

    def __init__(self, path: str):
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
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

"""A stranger at a door: says nonsense, then the right greeting without the token, then nothing, until sent away."""

import contextlib
import json
import socket
import struct
import sys

from steplab_worker.messages import PROTOCOL

GREETING = (
    json.dumps({"message": "Hello", "protocol": PROTOCOL, "rank": 0, "pid": 1, "token": "guessed"}).encode() + b"\n"
)
NONSENSE = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x00" * 64,
    b"\xff" * 64,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 9,
)


def door(kind: str, address: str) -> socket.socket:
    """A connection to what /proc/net calls that."""
    if kind == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect("\0" + address[1:] if address.startswith("@") else address)
        return connection
    host, _, port = address.partition(":")
    words = struct.pack(f"={len(host) // 8}I", *(int(host[at : at + 8], 16) for at in range(0, len(host), 8)))
    name = socket.inet_ntop(socket.AF_INET if kind == "tcp" else socket.AF_INET6, words)
    name = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(name, name.removeprefix("::ffff:"))
    return socket.create_connection((name, int(port, 16)), timeout=5)


def main() -> None:
    """Knock in every way."""
    kept = []
    for words in (*NONSENSE, GREETING, b""):
        with contextlib.suppress(OSError):
            connection = door(sys.argv[1], sys.argv[2])
            kept.append(connection)
            connection.sendall(words)
    sys.stdin.read()


if __name__ == "__main__":
    main()

"""A small HTTP server for one page: it answers GET and HEAD of `/` and `/state.json`, and nothing else.

It never turns a request into a path on disk. Heads are short and must come in time, answers go out piece by piece, and
every connection ends with its answer; so thousands of slow or hostile ones cost little. Requests under a foreign name
are refused, or a web page could reach a loopback server through its visitor's browser (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import ipaddress
import signal
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

LONGEST_HEAD = 8192
HEAD_S, PIECE_S = 10.0, 20.0  # patience for a whole head, and for a piece of the answer to be taken
PIECE = 1 << 16
MOST_CONNECTIONS = 4000
HEADERS = (
    ("Cache-Control", "no-cache"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"), ("Cross-Origin-Resource-Policy", "same-origin"), ("Connection", "close"),
)  # fmt: skip


@dataclass(frozen=True)
class Served:
    """One thing that is served, also compressed."""

    kind: str
    plain: bytes
    packed: bytes
    tag: str


def served(kind: str, content: bytes) -> Served:
    """Content ready to be served."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    return Served(kind, content, gzip.compress(content, compresslevel=1, mtime=0), tag)


Look = Callable[[], dict[str, Served]]  # what is served now, by path; quick, called in a thread


class Refused(Exception):
    """A request that gets an answer without content."""

    def __init__(self, status: HTTPStatus) -> None:
        self.status = status
        super().__init__(status.phrase)


@dataclass(frozen=True)
class Request:
    """What the server reads of a request."""

    method: str
    path: str
    headers: dict[str, str]


def parse(head: bytes, hosts: frozenset[str] | None) -> Request:
    """A request from its head; `hosts` are the names under which the server may be called (None: any)."""
    try:
        first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
        method, target, version = first.split(" ")
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST) from None
    pairs = [line.partition(":") for line in lines]
    named = [value.strip().lower() for name, _, value in pairs if name.lower() == "host"]
    if not version.startswith("HTTP/1.") or len(named) != 1 or any(not name.strip() for name, _, _ in pairs):
        raise Refused(HTTPStatus.BAD_REQUEST)
    if hosts is not None and named[0] not in hosts:
        raise Refused(HTTPStatus.MISDIRECTED_REQUEST)
    if method not in ("GET", "HEAD"):
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Request(method, target.partition("?")[0], headers)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """The Host headers under which a loopback server may be called."""
    names = {host.lower(), "localhost", "127.0.0.1", "[::1]"} | ({f"[{host.lower()}]"} if ":" in host else set())
    return frozenset({f"{name}:{port}" for name in names} | (names if port == 80 else set()))


class Server:
    """Serves what `look` gives, until it is told to stop."""

    def __init__(self, look: Look, hosts: frozenset[str] | None = None) -> None:
        self.look, self.hosts, self.open = look, hosts, 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, one answer, closed."""
        self.open += 1
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            self.open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.open > MOST_CONNECTIONS:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
            request = parse(head, self.hosts)
            page = (await asyncio.to_thread(self.look)).get(request.path)
            if page is None:
                raise Refused(HTTPStatus.NOT_FOUND)
            await _send(writer, *_success(request, page))
        except Refused as refused:
            await _send(writer, *_refusal(refused.status))
        except asyncio.LimitOverrunError:
            await _send(writer, *_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        except TimeoutError:
            await _send(writer, *_refusal(HTTPStatus.REQUEST_TIMEOUT))


def _success(request: Request, served: Served) -> tuple[bytes, bytes]:
    if request.headers.get("if-none-match") == served.tag:
        return _head(HTTPStatus.NOT_MODIFIED, [("ETag", served.tag)]), b""
    packed = "gzip" in request.headers.get("accept-encoding", "")
    body = served.packed if packed else served.plain
    own = [("Content-Type", served.kind), ("ETag", served.tag), ("Vary", "Accept-Encoding")]
    own += [("Content-Encoding", "gzip")] if packed else []
    own += [("Content-Length", str(len(body))), ("Content-Security-Policy", "frame-ancestors 'none'")]
    return _head(HTTPStatus.OK, own), body if request.method == "GET" else b""


def _refusal(status: HTTPStatus) -> tuple[bytes, bytes]:
    body = f"{status.phrase}\n".encode()
    own = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    own += [("Allow", "GET, HEAD")] if status is HTTPStatus.METHOD_NOT_ALLOWED else []
    return _head(status, own), body


def _head(status: HTTPStatus, own: list[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in (*own, *HEADERS))]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


async def _send(writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
    """Head and body; a piece is only given once the one before is nearly taken, so that memory stays small."""
    writer.write(head)
    view = memoryview(body)
    for at in range(0, len(body), PIECE):
        writer.write(view[at : at + PIECE])
        await asyncio.wait_for(writer.drain(), PIECE_S)
    await asyncio.wait_for(writer.drain(), PIECE_S)


async def serve(server: Server, host: str, port: int, ready: Callable[[int], None]) -> None:
    """Listen until SIGINT or SIGTERM; `ready` learns the port."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    listening = await asyncio.start_server(server.answer, host, port, limit=LONGEST_HEAD, backlog=2048)
    taken = int(listening.sockets[0].getsockname()[1])
    if server.hosts is not None:
        server.hosts = allowed_hosts(host, taken)
    ready(taken)
    try:
        await stop.wait()
    finally:
        listening.close()


def raise_file_limit() -> None:
    """Let this process open as many connections as the system allows it, up to what is served at once."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + 96 if hard == resource.RLIM_INFINITY else min(hard, MOST_CONNECTIONS + 96)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

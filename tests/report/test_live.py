"""The live server: one page, read-only, on loopback, however it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import pytest

from steplab.report import live

T = TypeVar("T")
STORM = 1000  # connections
# The command, with more patience: a thousand connections open at once may take a busy machine longer than one head may.
PATIENT = """
from steplab.report import live
live.HEAD_S = live.PIECE_S = 600.0
from steplab.__main__ import main
main()
"""
HEAD = "GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n"
TRICKS = (
    "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2fstudy.toml", "/study.toml", "/records/", "//", "/./",
    "/state.json/", "/state.json%00", "/%00", "http://127.0.0.1/", "*", "/\\..\\x", "/index.html", "/STATE.JSON",
)  # fmt: skip


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a thread: a browser of other tests may keep a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def parsed(text: str) -> live.Request:
    return live.parse(text.encode("latin-1"), live.allowed_hosts("127.0.0.1", 80))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", HTTPStatus.MISDIRECTED_REQUEST),
        ("GET / HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", HTTPStatus.BAD_REQUEST),
        ("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
        ("GET / x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        ("GET /\r\n\r\n", HTTPStatus.BAD_REQUEST),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \xff\r\n\r\n", HTTPStatus.BAD_REQUEST),
        ("GET / SPDY/3\r\nHost: 127.0.0.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
    ],
)
def test_a_wrong_request_is_refused(head: str, status: HTTPStatus) -> None:
    with pytest.raises(live.Refused) as refused:
        parsed(head)
    assert refused.value.status is status


def test_a_query_is_no_part_of_the_path() -> None:
    assert parsed("HEAD /state.json?since=1 HTTP/1.1\r\nHost: LOCALHOST\r\n\r\n").path == "/state.json"


@pytest.fixture
def serving(
    steplab: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path, no_orphans: Callable[[], None]
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server of a small study, and its port."""
    assert steplab("run", study_file(strategy=["sync", "ps-sync"], workers=[1, 2]), "--out", "out").code == 0
    command = [sys.executable, "-c", PATIENT, "serve", "out", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = "".join(process.stdout.readline() for _ in range(5))
        try:
            yield process, int(json.loads(told)["port"])
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def ask(port: int, request: str, wait_s: float = 120.0) -> tuple[int, bytes]:
    """Status and body of an answer to raw bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait_s) as connection:
        connection.sendall(request.encode("latin-1"))
        pieces = []
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_serve_answers_only_its_page_and_survives(serving: tuple[subprocess.Popen[str], int]) -> None:
    process, port = serving
    status, page = ask(port, HEAD.format("/", port))
    assert status == 200
    assert b"data-live" in page
    status, news = ask(port, HEAD.format("/state.json", port))
    progress = json.loads(news)["progress"]
    assert [progress[name] for name in ("trials", "ok", "failed", "unsupported", "left")] == [8, 4, 0, 4, 0]
    assert {ask(port, HEAD.format(trick, port))[0] for trick in TRICKS} == {404}
    assert ask(port, f"GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n")[0] == 421
    assert ask(port, HEAD.format("/" + "a" * 20_000, port))[0] == 431
    assert run(_storm(port, min(STORM, free_files()))) == {200}
    assert ask(port, HEAD.format("/state.json", port))[0] == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


def free_files() -> int:
    """How many files this process may still open, less some for its own work; the server may open as many."""
    live.raise_file_limit()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return STORM if most == resource.RLIM_INFINITY else most - len(list(Path("/proc/self/fd").iterdir())) - 50


async def _storm(port: int, count: int) -> set[int]:
    """Statuses of that many requests that are all open at once."""
    ready = asyncio.Barrier(count)

    async def one() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await ready.wait()
        writer.write(HEAD.format("/state.json", port).encode())
        status = int((await reader.readline()).split()[1])
        while await reader.read(1 << 16):
            pass
        writer.close()
        return status

    return set(await asyncio.gather(*(one() for _ in range(count))))


def test_a_slow_head_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEAD_S", 0.1)

    async def slow() -> bytes:
        server = live.Server(dict, None)
        listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(b"GET / HTT")
        answer = await asyncio.wait_for(reader.read(), 120)
        writer.close()
        listening.close()
        return answer

    assert run(slow()).startswith(b"HTTP/1.1 408 ")


def test_other_machines_are_refused_without_the_flag(steplab: Callable[..., Any]) -> None:
    said = steplab("serve", "nowhere", "--host", "0.0.0.0")
    assert said.code == 1
    assert "--allow-remote" in said.err


def test_serving_no_study_is_one_sentence(steplab: Callable[..., Any]) -> None:
    said = steplab("serve", "nowhere", "--port", "0")
    assert said.code == 1
    assert "there is no such folder" in said.err
    assert os.linesep not in said.err.strip()

"""A study's report in the browser while the study runs; read-only, on this machine only."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steplab.api.measuring.status import counts, own_trials
from steplab.api.results.report_data import report_data
from steplab.api.results.results import Results
from steplab.core.errors import InputError, SteplabError
from steplab.report import live
from steplab.report.html import Content, content, render, state
from steplab.report.live import Served, served
from steplab.store.overview import Overview, overview
from steplab.store.paths import StudyFolder
from steplab.study.file import read_study

EVERY_S = 2.0  # a page is not made more often than that
RESTED = 5.0  # and making it takes at most one part in that many of the time: a study is being measured
LIVE_MODELS, LIVE_MODELS_S = ("linear", "quadratic", "ssgd"), 1.0  # the quickest: the machine is busy measuring


def serve(
    folder: Path | str,
    port: int = 8765,
    host: str = "127.0.0.1",
    *,
    allow_remote: bool = False,
    ready: Callable[[str, int], None] = lambda url, port: None,
) -> None:
    """Serve the report of a study until SIGINT or SIGTERM ends it; the page renews itself while the study runs.

    `ready` learns the address once there is one; port 0 takes a free one. Only this machine can read the page unless
    `allow_remote` is true. It takes both signals while it serves: it is for a program of its own, not for a notebook.
    """
    try:
        host.encode("idna")
    except UnicodeError:
        raise InputError("is no name of a host", where=f"host {host}") from None
    if not (allow_remote or live.is_loopback(host)):
        hint = "give allow_remote (--allow-remote) if everyone who reaches this machine may read the study"
        raise InputError("this address is not on loopback", where=f"host {host}", hint=hint)
    view = View(Path(folder))
    view.look()
    server = live.Server(view.look, None if allow_remote else frozenset())
    live.raise_file_limit()
    shown = f"[{host}]" if ":" in host else host
    try:
        asyncio.run(live.serve(server, host, port, lambda taken: ready(f"http://{shown}:{taken}/", taken)))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot listen there ({reason})", where=f"host {host}, port {port}") from None


class View:
    """What is served of a study: made anew when records have come, kept otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.things: dict[str, Served] = {}
        self.content: Content | None = None
        self.renewed = self.cost = 0.0
        self.seen: Overview | None = None

    def look(self) -> dict[str, Served]:
        """What is served now, by path; one thread renews it, the others take what there is."""
        rest = max(EVERY_S, RESTED * self.cost)
        due = not self.things or time.monotonic() - self.renewed > rest
        if due and self.lock.acquire(blocking=not self.things):
            try:
                if not self.things or time.monotonic() - self.renewed > rest:
                    self._renew()
            finally:
                self.lock.release()
        return self.things

    def _renew(self) -> None:
        """Make the page again if there is news; a folder that cannot be read just now leaves the last one."""
        began = time.process_time()
        try:
            place = StudyFolder(self.folder)
            place.must_exist()
            seen = overview(place, before=self.seen)
            if self.seen is None or seen.signatures != self.seen.signatures or not self.things:
                self._make(seen)
                self.seen = seen
        except SteplabError:
            if not self.things:
                raise
        self.cost, self.renewed = time.process_time() - began, time.monotonic()

    def _make(self, seen: Overview) -> None:
        data = report_data(Results(self.folder), LIVE_MODELS, LIVE_MODELS_S)
        progress = self._progress(seen, data.analysis.noise.verdict)
        self.content = content(data)
        page = render(self.content, live=True).encode()
        news = state(self.content, progress)
        self.things = {"/": served("text/html; charset=utf-8", page), "/state.json": served("application/json", news)}

    def _progress(self, seen: Overview, noise: str) -> dict[str, Any]:
        """How many trials are done, failed, unsupported and left, and the time that is left by those that are done."""
        place = StudyFolder(self.folder)
        trials, own = own_trials(place, read_study(place.study, place.read), seen.briefs.keys())
        ended = [seen.briefs[trial] for trial in own]
        counted = counts(place, trials, ended)
        each = sum(brief.seconds for brief in ended) / len(ended) if ended else None
        numbers = counted.document()
        del numbers["folder"]
        return numbers | {"noise": noise, "seconds_left": None if each is None else each * counted.left}

"""Show a study's report in the browser while it runs; read-only, on this machine only."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steplab.cli._output import JsonOption, command_app, console, print_json

if TYPE_CHECKING:
    from steplab.report.html import Content
    from steplab.report.live import Served
    from steplab.store.overview import Overview

app = command_app()
EVERY_S = 2.0  # a page is not made more often than that
RESTED = 5.0  # and making it takes at most one part in that many of the time: a study is being measured
LIVE_MODELS, LIVE_MODELS_S = "linear,quadratic,ssgd", 1.0  # the quickest: the machine is busy measuring


@app.command(epilog="Example: steplab serve runs/demo --port 8765")
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Let other machines read the page.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Serve the report of a study on loopback; the page renews itself while the study runs. Ctrl-C ends it.

    Example: steplab serve runs/demo
    """
    import asyncio

    from steplab.core.errors import InputError
    from steplab.report import live

    if not (allow_remote or live.is_loopback(host)):
        hint = "give --allow-remote if everyone who reaches this machine may read the study"
        raise InputError("this address is not on loopback", where=f"--host {host}", hint=hint)
    view = View(folder)
    view.look()
    server = live.Server(view.look, None if allow_remote else frozenset())
    live.raise_file_limit()

    def ready(found: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{found}/"
        if as_json:
            print_json({"folder": str(folder), "url": url, "port": found})
        else:
            console().print(f"serving {folder} at {url} (Ctrl-C ends it)", markup=False, soft_wrap=True)

    try:
        asyncio.run(live.serve(server, host, port, ready))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot listen there ({reason})", where=f"--host {host} --port {port}") from None


class View:
    """What is served of a study: made anew when records have come, kept otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.things: dict[str, Served] = {}
        self.content: Content | None = None
        self.made = self.cost = 0.0
        self.seen: Overview | None = None

    def look(self) -> dict[str, Served]:
        """What is served now, by path; one thread renews it, the others take what there is."""
        rest = max(EVERY_S, RESTED * self.cost)
        due = not self.things or time.monotonic() - self.made > rest
        if due and self.lock.acquire(blocking=not self.things):
            try:
                if not self.things or time.monotonic() - self.made > rest:
                    self._renew()
            finally:
                self.lock.release()
        return self.things

    def _renew(self) -> None:
        """Make the page again if there is news; a folder that cannot be read just now leaves the last one."""
        from steplab.core.errors import SteplabError
        from steplab.store.overview import overview
        from steplab.store.paths import StudyFolder

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
        self.cost, self.made = time.process_time() - began, time.monotonic()

    def _make(self, seen: Overview) -> None:
        from steplab.cli._report import report_data
        from steplab.report.html import content, render, state
        from steplab.report.live import served

        data = report_data(self.folder, LIVE_MODELS, LIVE_MODELS_S)
        progress = self._progress(seen, data.analysis.noise.verdict)
        self.content = content(data)
        page = render(self.content, live=True).encode()
        news = state(self.content, progress)
        self.things = {"/": served("text/html; charset=utf-8", page), "/state.json": served("application/json", news)}

    def _progress(self, seen: Overview, noise: str) -> dict[str, Any]:
        """How many trials are done, failed, unsupported and left, and the time that is left by those that are done."""
        from steplab.cli._plan import own_trials, summary
        from steplab.store.paths import StudyFolder
        from steplab.study.file import read_study

        place = StudyFolder(self.folder)
        trials, own = own_trials(read_study(place.study, place.read), seen.briefs.keys())
        ended = [seen.briefs[trial] for trial in own]
        counts = summary(place, trials, ended)
        del counts["folder"]
        each = sum(brief.seconds for brief in ended) / len(ended) if ended else None
        return counts | {"noise": noise, "seconds_left": None if each is None else each * counts["left"]}

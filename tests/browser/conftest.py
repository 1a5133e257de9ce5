"""One real Chromium for all browser tests, studies to look at, and a page that notes everything it does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from steplab.api.results.report_data import report_data
from steplab.api.results.results import Results
from steplab.core.errors import EnvironmentFault
from steplab.core.record import parse_record
from steplab.core.trial import trial_id
from steplab.costs.roofs import Ceiling, Ceilings, Level
from steplab.report.browser import find_browser
from steplab.report.html import content, render
from steplab.runner.instruments import ceilings
from steplab.store import records
from steplab.store.paths import StudyFolder

STEPLAB = Path(sys.executable).with_name("steplab")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip

PATIENCE_MS = 180_000  # other programs may have the machine
FRAMEWORKS = ("torch", "tensorflow", "jax", "mxnet", "chainer", "velox")
ROOFS = Ceilings("a machine", (Ceiling(1, 1e12, (Level("L3", 8e10, 1e7), Level("DRAM", 2e10))),), "measured", "test")


@dataclass
class Watched:
    """A page with what it asked for and what went wrong in it."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; without it these tests fail, they are not left out."""
    try:
        path = find_browser()
    except EnvironmentFault as fault:
        pytest.fail(f"the browser tests need Chromium: {fault}", pytrace=False)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(path), args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def watch(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Open an address in a fresh context and wait until its charts are drawn."""
    contexts = []

    def opened(address: str, *, wait: bool = True, **options: Any) -> Watched:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        seen = Watched(page)
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("console", lambda message: seen.complaints.append(message.text))
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.goto(address)
        if wait:
            page.wait_for_selector("html[data-ready]", state="attached")
        return seen

    yield opened
    for context in contexts:
        context.close()


def run_study(
    place: Path, description: str = "", design: str = "replicates = 2", kind: str = "step", more: str = "",
    iterations: int = 8, **factors: object,
) -> Path:  # fmt: skip
    """Run a synthetic study; its folder."""
    levels = {"framework": ["synthetic"], **factors}
    lines = [f'[study]\nname = "looked-at"\nkind = "{kind}"\ndescription = {json.dumps(description)}\n[factors]']
    lines += [f"{name} = {json.dumps(value)}" for name, value in levels.items()]
    measure = "" if kind == "train" else f"iterations = {iterations}\nwarmup = 2\n"
    lines += [f"[design]\n{design}\n[measure]\n{measure}retries = 0\n{more}"]
    (place / "looked-at.toml").write_text("\n".join(lines))
    command = [STEPLAB, "run", "looked-at.toml", "--out", "study", "--json"]
    done = subprocess.run(
        command, cwd=place, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode in (0, 3), done.stderr
    return place / "study"


def report_of(folder: Path) -> str:
    """Write a study's report; its address. The ceilings are not this machine's own, which another test may measure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ceilings, "known_ceilings", lambda: ROOFS)
        page = render(content(report_data(Results(folder))))
    made = folder / "report.html"
    made.write_text(page, encoding="utf-8")
    return made.as_uri()


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with everything that the synthetic framework can show."""
    place = tmp_path_factory.mktemp("rich")
    return run_study(
        place, "Everything at once", dataset=["mnist"], batch_size=[16, 32, 64], workers=[1, 2, 3],
        strategy=["sync", "accumulate:2"], noise=0.05, imbalance=0.2, bandwidth_bytes_s=1e8,
    )  # fmt: skip


@pytest.fixture(scope="session")
def rich_page(rich: Path) -> str:
    """The address of the rich study's report."""
    return report_of(rich)


@pytest.fixture(scope="session")
def roofed_page(rich: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of its report as if it had run on this CPU, with known ceilings."""
    folder = tmp_path_factory.mktemp("roofed") / "study"
    shutil.copytree(rich, folder, ignore=shutil.ignore_patterns("cache", "*.html"))
    for path in (folder / "records").iterdir():
        said = json.loads(path.read_text())
        said["versions"]["device"] = "cpu"
        path.write_text(json.dumps(said))
    return report_of(folder)


def rewrite_records(folder: Path, change: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> None:
    """Replace every record by those that `change` makes of it."""
    place = StudyFolder(folder)
    for name in sorted(records.done(place)):
        old = json.loads(place.record(name).read_bytes())
        place.record(name).unlink()
        for document in change(old):
            document["trial"] = trial_id(document["config"], document["replicate"])
            records.write_record(place, parse_record(json.dumps(document).encode(), "a test's record"))


@pytest.fixture(scope="session")
def rewrite() -> Callable[..., None]:
    """To replace the records of a study."""
    return rewrite_records


@pytest.fixture(scope="session")
def six_frameworks_page(rich: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the report of six frameworks, of which the later ones are slower: 108 configurations."""
    folder = tmp_path_factory.mktemp("six") / "study"
    shutil.copytree(rich, folder, ignore=shutil.ignore_patterns("cache", "*.html"))
    rewrite_records(folder, lambda old: [in_framework(old, name, 1 + 0.3 * at) for at, name in enumerate(FRAMEWORKS)])
    return report_of(folder)


def in_framework(old: dict[str, Any], name: str, slower: float) -> dict[str, Any]:
    """A record as if another framework had taken so many times as long."""
    named = {part: {**old[part], "framework": name} for part in ("config", "resolved")}
    return {**old, **named, "ranks": slowed(old["ranks"], slower)}


def slowed(value: Any, by: float, key: str = "") -> Any:
    """The same with all times multiplied."""
    if isinstance(value, dict):
        return {name: slowed(part, by, name) for name, part in value.items()}
    if isinstance(value, list):
        return [slowed(part, by, key) for part in value]
    return value * by if key.startswith("t_") and isinstance(value, float) else value


@pytest.fixture(scope="session")
def trained_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the report of trainings to 90 %, which one of three never reaches."""
    place = tmp_path_factory.mktemp("trained")
    more = "[train]\nepochs = 6\ntarget_accuracy = 0.9\n[data]\nsamples = 200\n"
    limits = {"accuracy_limit": [0.7, 0.95, 0.99], "learn_epochs": 1.0, "noise": 0.05}
    return report_of(run_study(place, kind="train", more=more, dataset=["mnist"], **limits))


@pytest.fixture(scope="session")
def inferred_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the report of an inference: two batch sizes, 120 iterations each."""
    place = tmp_path_factory.mktemp("inferred")
    return report_of(run_study(place, kind="infer", iterations=120, dataset=["mnist"], batch_size=[1, 8], noise=0.1))


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with one trial."""
    return run_study(tmp_path_factory.mktemp("single"), design="replicates = 1", dataset=["mnist"])


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[Path], Path]:
    """A copy of a study that a test may change."""

    def copied(folder: Path) -> Path:
        made = tmp_path / "study"
        shutil.copytree(folder, made, ignore=shutil.ignore_patterns("cache", "report.html"))
        return made

    return copied

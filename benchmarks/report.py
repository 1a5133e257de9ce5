"""The report of a thousand trials: how large, how long to write, how long until a browser shows it.

Limits: 6 MB, 10 s for `steplab report` (records parsed anew), 3 s from opening the file to the first chart
(the middle of five openings, each in a new browser).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OPENINGS = 5
STEPLAB = Path(sys.executable).with_name("steplab")
STUDY = """
[study]
name = "thousand"
[factors]
framework = ["synthetic"]
network = ["lenet5", "mlp"]
dataset = ["mnist"]
batch_size = [16, 32, 64, 128, 256]
workers = [1, 2, 3, 4, 5]
strategy = ["sync", "accumulate:4"]
overlap = [0.0, 0.5]
imbalance = [0.15]
noise = [0.05]
bandwidth_bytes_s = [1e8]
[design]
replicates = 5
[measure]
iterations = 40
phases = true
"""
# The page notes the frame with the first chart: who asks from outside waits for charts that are drawn meanwhile.
NOTE = """
new MutationObserver((_, self) => {
  if (!document.querySelector("[data-chart] svg.main-svg")) return;
  self.disconnect();
  requestAnimationFrame(() => performance.mark("first-chart"));
}).observe(document, { childList: true, subtree: true });
"""
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def steplab(*arguments: object, cwd: Path) -> float:
    """Seconds of a command."""
    began = time.perf_counter()
    subprocess.run([STEPLAB, *map(str, arguments)], cwd=cwd, check=True, capture_output=True)
    return time.perf_counter() - began


def opened(page: Path) -> tuple[float, float, float]:
    """Seconds until the answer can be read, until the first chart stands, and until all do; in a new browser."""
    from playwright.sync_api import sync_playwright

    from steplab.report.browser import find_browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(find_browser()), args=list(FLAGS))
        tab = browser.new_page()
        tab.add_init_script(NOTE)
        began = time.time()
        tab.goto(page.as_uri(), wait_until="commit")
        tab.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
        every = time.time() - began
        names = ("first-contentful-paint", "first-chart")
        asked = "name => performance.timeOrigin + performance.getEntriesByName(name)[0].startTime"
        painted, first = (tab.evaluate(asked, name) / 1e3 - began for name in names)
        browser.close()
    return painted, first, every


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="steplab-bench-") as name:
        place = Path(name)
        (place / "study.toml").write_text(STUDY)
        steplab("run", "study.toml", "--out", "study", cwd=place)
        shutil.rmtree(place / "study" / "cache", ignore_errors=True)
        fresh = steplab("report", "study", cwd=place)
        again = steplab("report", "study", cwd=place)
        page = place / "study" / "report.html"
        read, first, every = map(statistics.median, zip(*(opened(page) for _ in range(OPENINGS)), strict=True))
        rows = (
            ("size of the page", page.stat().st_size / 1e6, "MB", 6.0),
            ("steplab report, records parsed anew", fresh, "s", 10.0),
            ("steplab report, tables cached", again, "s", 10.0),
            ("browser: the answer can be read", read, "s", None),
            ("browser: first chart", first, "s", 3.0),
            ("browser: all charts", every, "s", None),
        )
        print(f"1,000 trials; load {os.getloadavg()[0]:.1f}")
        for what, value, unit, limit in rows:
            told = "" if limit is None else f"  limit {limit:g} {unit}: {value / limit:.2f} of it"
            print(f"{what:40} {value:8.2f} {unit:3}{told}")


if __name__ == "__main__":
    main()

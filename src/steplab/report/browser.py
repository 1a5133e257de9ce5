"""Figures as SVG and PNG, drawn by a Chromium that is already on the machine; one run for all of them."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from steplab.core import atomic
from steplab.core.errors import EnvironmentFault

if TYPE_CHECKING:
    import plotly.graph_objects as go

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
WIDTH = 800
TIMEOUT_S = 180
IMAGE = re.compile(r'<p data-name="([\w-]+)" data-format="(svg|png)">([^<]*)</p>')
SCRIPT = """
const figures = JSON.parse(document.getElementById("figures").textContent);
(async () => {
  const box = document.getElementById("box");
  for (const [name, figure] of Object.entries(figures)) {
    const size = {width: WIDTH, height: figure.layout.height};
    await Plotly.newPlot(box, figure.data, {...figure.layout, ...size}, {staticPlot: true});
    for (const format of ["svg", "png"]) {
      const made = document.createElement("p");
      made.dataset.name = name;
      made.dataset.format = format;
      made.textContent = await Plotly.toImage(box, {format, ...size, scale: format === "png" ? 2 : 1});
      document.body.append(made);
    }
  }
  box.remove();
  document.body.dataset.done = "yes";
})();
"""


@dataclass(frozen=True)
class Image:
    """A figure as the bytes of a file."""

    name: str
    suffix: str
    content: bytes


def find_browser() -> Path:
    """The Chromium or Chrome on the PATH, or the one that STEPLAB_BROWSER names."""
    named = os.environ.get("STEPLAB_BROWSER")
    if named and Path(named).is_file():
        return Path(named)
    installed = next((path for path in map(shutil.which, NAMES) if path), None)
    if installed is None:
        raise EnvironmentFault(
            "figures need Chromium, which is not on this machine; install it (Debian: apt install chromium), "
            "or name one in STEPLAB_BROWSER"
        )
    return Path(installed)


def images(figures: Mapping[str, go.Figure]) -> list[Image]:
    """Every figure as SVG and as PNG."""
    if not figures:
        return []
    browser = find_browser()
    with atomic.scratch("figures") as folder:
        page = folder / "figures.html"
        page.write_text(_page(figures), encoding="utf-8")
        text = _dump(browser, page, folder / "profile")
    drawn = [Image(name, kind, _decoded(address)) for name, kind, address in IMAGE.findall(text)]
    if len(drawn) != 2 * len(figures):
        raise EnvironmentFault(f"{browser} drew {len(drawn)} of {2 * len(figures)} figures; is it a recent Chromium?")
    return drawn


def _page(figures: Mapping[str, go.Figure]) -> str:
    from plotly.offline import get_plotlyjs

    # On paper: black ink, white ground.
    parts = ",".join(f'"{name}":{_inked(figure).to_json()}' for name, figure in figures.items()).replace("<", "\\u003c")
    return (
        '<!doctype html><meta charset="utf-8"><body><div id="box"></div>'
        f'<script type="application/json" id="figures">{{{parts}}}</script>'
        f"<script>{get_plotlyjs()}</script><script>{SCRIPT.replace('WIDTH', str(WIDTH))}</script>"
    )


def _inked(figure: go.Figure) -> go.Figure:
    import plotly.graph_objects as go

    return go.Figure(figure).update_layout(font={"color": "#000000"}, paper_bgcolor="#ffffff")


def _dump(browser: Path, page: Path, profile: Path) -> str:
    """The page's text after its scripts have run; in a container root has no sandbox to use."""
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    command = [str(browser), *FLAGS, *root, f"--user-data-dir={profile}", "--virtual-time-budget=120000",
               f"--timeout={TIMEOUT_S * 500}", "--dump-dom", page.as_uri()]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault(f"{browser} could not draw the figures ({type(error).__name__})") from error
    return done.stdout.decode("utf-8", "replace")


def _decoded(address: str) -> bytes:
    """The bytes of a data address, which the page's text holds with its ampersands escaped."""
    head, _, body = address.replace("&amp;", "&").partition(",")
    return base64.b64decode(body) if head.endswith(";base64") else unquote_to_bytes(body)

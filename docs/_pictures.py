"""Take the pictures of the report again: `python docs/_pictures.py runs/demo/report.html`.

The page is that of `make demo`. Debian's Chromium looks at it and prints it, `pdftoppm` of poppler-utils draws what was
printed, and Pillow puts the first pages side by side; the pictures go into `docs/images`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from steplab.report.browser import FLAGS, find_browser

IMAGES = Path(__file__).parent / "images"
PAGES = 4  # of what is printed
BEYOND = {"batch_size": "128", "workers": "6"}  # of the sliders: outside of what the demo measured


def opened(chromium: Browser, report: Path, width: int, height: int, scheme: str = "light") -> Page:
    """The page in a window of that size, with its charts drawn."""
    page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(report.resolve().as_uri())
    page.wait_for_timeout(3000)
    return page


def take(chromium: Browser, report: Path) -> None:
    """All five pictures."""
    opened(chromium, report, 1000, 1270).screenshot(path=IMAGES / "report.png")
    opened(chromium, report, 900, 990, "dark").screenshot(path=IMAGES / "report-dark.png")
    opened(chromium, report, 400, 1960).screenshot(path=IMAGES / "report-phone.png")
    page = opened(chromium, report, 1000, 1270)
    for name, level in BEYOND.items():
        page.fill(f"input[data-factor={name}]", level)
    page.wait_for_timeout(500)
    page.locator("#what-if").screenshot(path=IMAGES / "report-what-if.png")
    with TemporaryDirectory() as folder:
        page.pdf(path=Path(folder, "report.pdf"), format="A4")
        print_pages(Path(folder))


def print_pages(folder: Path) -> None:
    """The first printed pages side by side."""
    draw = ["pdftoppm", "-png", "-r", "58", "-l", str(PAGES), folder / "report.pdf", folder / "page"]
    subprocess.run(draw, check=True)
    pages = [Image.open(path) for path in sorted(folder.glob("page*.png"))]
    row = Image.new("RGB", (sum(page.width for page in pages), pages[0].height))
    for number, page in enumerate(pages):
        row.paste(page, (number * page.width, 0))
    row.save(IMAGES / "report-print.png")


def main() -> None:
    """Look at the report that is named."""
    report = Path(sys.argv[1])
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_browser(), args=[*FLAGS, "--no-sandbox"])
        take(chromium, report)
        chromium.close()


if __name__ == "__main__":
    main()

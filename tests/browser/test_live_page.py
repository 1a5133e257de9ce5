"""The served page in a real browser: it renews itself while records come, without complaint."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

STEPLAB = Path(sys.executable).with_name("steplab")
PATIENCE_MS = 180_000  # only ends a hang


def test_a_served_page_renews_itself(watch: Callable[..., Any], rich: Path, copy_of: Callable[[Path], Path]) -> None:
    folder = copy_of(rich)
    every = sorted((folder / "records").glob("*.json"))
    for path in every[::2]:
        path.unlink()
    command = [STEPLAB, "serve", folder, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = json.loads("".join(process.stdout.readline() for _ in range(5)))["url"]
            seen = watch(url)
            page = seen.page
            expect(page.locator("#progress-text")).to_contain_text("18 ok", timeout=PATIENCE_MS)
            page.locator("#level").select_option("0.8")
            page.locator("#theme").focus()
            for path in every[::2]:
                shutil.copy(rich / "records" / path.name, path)
            expect(page.locator("#progress-text")).to_contain_text("36 ok", timeout=PATIENCE_MS)
            expect(page.locator("#main")).to_contain_text("36 trials, 0 failed", timeout=PATIENCE_MS)
            assert "finished" in page.locator("#progress-text").inner_text()
            assert page.input_value("#level") == "0.8"
            assert seen.complaints == []
            assert all(address.startswith((url, "data:", "blob:")) for address in seen.requests)
        finally:
            process.terminate()

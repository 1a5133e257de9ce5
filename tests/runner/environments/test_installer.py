"""What an installer prints goes to a log, and what it downloads is told as it goes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from steplab.runner.environments.installer import install, told

PRINTS = """
print("Collecting torch==2.13.0")
print("  Downloading torch-2.13.0-cp311-cp311-linux_x86_64.whl (190.2 MB)")
print("  Downloading six-1.17.0-py2.py3-none-any.whl (11 kB)")
print("Installing collected packages: six, torch")
raise SystemExit(4)
"""


def test_large_downloads_are_told_and_all_is_logged(tmp_path: Path) -> None:
    lock, log, news = os.open(os.devnull, os.O_RDONLY), tmp_path / "x.log", []
    try:
        assert install([sys.executable, "-c", PRINTS], log, lock, news.append) == 4
    finally:
        os.close(lock)
    assert news == ["downloading torch 2.13.0 (190.2 MB)", "installing 2 packages: six, torch"]
    assert "Collecting torch==2.13.0" in log.read_text() and "six-1.17.0" in log.read_text()


def test_what_lies_in_pips_cache_is_not_called_a_download() -> None:
    assert told("Using cached jaxlib-0.10.2-cp311-cp311-manylinux.whl (80.1 MB)\n") == (
        "already downloaded: jaxlib 0.10.2 (80.1 MB)"
    )

"""Running an installer: all that it prints goes to a log, and what it downloads and installs is told as it goes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

DOWNLOAD = re.compile(r"\s*(Downloading|Using cached) (?:\S+/)?(?P<file>[^\s/]+?)(?:\.metadata)? \((?P<size>[^)]+)\)")
INSTALL = re.compile(r"\s*Installing collected packages: (?P<names>.+)")
PACKAGE = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*)-")
SMALL = ("bytes", "kB")  # of these there are dozens, and they take no time


def install(command: Sequence[str], log: Path, lock: int, say: Callable[[str], None]) -> int:
    """Run a command to its end; its exit code. It keeps the lock as long as it lives, even if we do not."""
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with log.open("a", encoding="utf-8") as file, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=(lock,),
        env=unbuffered, text=True, encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                file.write(line)
                if news := told(line):
                    say(news)
        except BaseException:
            process.kill()
            raise
    return process.returncode


def told(line: str) -> str:
    """What a line of pip's output tells a person who waits; empty if nothing.

    >>> told("  Downloading torch-2.13.0-cp311-cp311-linux_x86_64.whl (190.2 MB)")
    'downloading torch 2.13.0 (190.2 MB)'
    >>> told("Installing collected packages: numpy, torch")
    'installing 2 packages: numpy, torch'
    """
    if match := INSTALL.match(line):
        names = match["names"].strip()
        return f"installing {names.count(',') + 1} packages: {names}"
    match = DOWNLOAD.match(line)
    if match is None or match["size"].endswith(SMALL) or ".metadata" in line:
        return ""
    package = PACKAGE.match(match["file"])
    name = f"{package['name']} {package['version']}" if package else match["file"]
    return f"{'downloading' if match[1] == 'Downloading' else 'already downloaded:'} {name} ({match['size']})"

"""What is installed where this runs: the framework's version and every package beside it."""

from __future__ import annotations

import importlib
import platform
from importlib import metadata

from steplab_worker.helper import Document, Say, serve


def describe(job: Document, say: Say) -> None:
    """Import the framework, if there is one, and NumPy; say their versions and those of all packages."""
    version = ""
    if job["module"]:
        version = getattr(importlib.import_module(job["module"]), "__version__", "unknown")
    importlib.import_module("numpy")
    packages = {
        "%s==%s" % (distribution.metadata["Name"], distribution.version) for distribution in metadata.distributions()
    }
    say({"version": version, "lock": sorted(packages, key=str.lower), "python": platform.python_version()})


def main() -> None:
    """Describe this interpreter's environment."""
    serve(describe)

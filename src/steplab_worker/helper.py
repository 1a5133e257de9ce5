"""A helper's life: one job on standard input, documents on a channel of its own, which nothing printed can spoil."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, Dict

from steplab_worker import limits

Document = Dict[str, Any]
Say = Callable[[Document], None]


def serve(work: Callable[[Document, Say], None]) -> None:
    """Do the job that the laboratory sent; `work` says each document as soon as it is known."""
    limits.die_with_parent()
    job = json.loads(sys.stdin.read())
    with os.fdopen(job.pop("channel"), "w") as channel:

        def say(document: Document) -> None:
            channel.write(json.dumps(document) + "\n")
            channel.flush()

        work(job, say)

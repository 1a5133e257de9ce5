"""The site's own code: the page on the Python API, true because it is made from what `steplab` offers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import steplab

PAGE = "reference.md"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Name every function, class and error for mkdocstrings, which takes their signatures and docstrings."""
    if page.file.src_uri != PAGE:
        return markdown
    return f"{markdown.rstrip()}\n\n{reference()}\n"


def reference() -> str:
    """What is offered, functions first."""
    return "\n\n".join(_parts())


def _parts() -> Iterator[str]:
    offered = {name: getattr(steplab, name) for name in steplab.__all__}
    errors = [name for name, thing in offered.items() if _is_error(thing)]
    classes = [name for name, thing in offered.items() if inspect.isclass(thing) and name not in errors]
    functions = [name for name, thing in offered.items() if inspect.isfunction(thing)]
    for title, names in (("Functions", functions), ("Objects", classes), ("Errors", errors)):
        yield f"## {title}"
        yield from (f"::: {offered[name].__module__}.{name}" for name in names)


def _is_error(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)

"""Show a study's report in the browser while it runs; read-only, on this machine only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._output import JsonOption, command_app, console, print_json

app = command_app()


@app.command(epilog="Example: steplab serve runs/demo --port 8765")
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Let other machines read the page.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Serve the report of a study on loopback; the page renews itself while the study runs. Ctrl-C ends it.

    Example: steplab serve runs/demo
    """

    def ready(url: str, taken: int) -> None:
        if as_json:
            print_json({"folder": str(folder), "url": url, "port": taken})
        else:
            console().print(f"serving {folder} at {url} (Ctrl-C ends it)", markup=False, soft_wrap=True)

    steplab.serve(folder, port, host, allow_remote=allow_remote, ready=ready)

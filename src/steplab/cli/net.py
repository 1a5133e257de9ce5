"""A cluster in a box: hosts on this machine, with lines as slow as you like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

import steplab
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table

if TYPE_CHECKING:
    from steplab.api.machine.nets import NetInfo

app = command_app("Hosts made of network namespaces, for trials with placement = 'net:NAME'.")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The net's name, e.g. box.")]


@app.command()
def up(
    name: NameArgument,
    hosts: Annotated[int, typer.Option(help="How many hosts.")] = 2,
    rate: Annotated[str, typer.Option(help="Of each host's line: unshaped, 1gbit, 100mbit.")] = "unshaped",
    delay: Annotated[str, typer.Option(help="Of each packet, e.g. 1ms; needs a kernel with netem.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Make hosts, joined by a switch; they stay until `steplab net down NAME`.

    Example: steplab net up box --hosts 3 --rate 1gbit
    """
    _show([steplab.net_up(name, hosts, rate, delay)], as_json)
    if not as_json:
        next_step(f"a study with placement = 'net:{name}', then steplab run STUDY.toml")


@app.command()
def down(name: NameArgument, as_json: JsonOption = False) -> None:
    """End a net, and every process in it.

    Example: steplab net down box
    """
    ended = steplab.net_down(name)
    if as_json:
        _show([ended], as_json)
    else:
        console().print(f"{name}: ended", markup=False)


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the nets that are up; what killed ones left is removed.

    Example: steplab net list
    """
    _show(steplab.nets(), as_json)


def _show(rows: Sequence[NetInfo], as_json: bool) -> None:
    if as_json:
        print_json({"nets": [asdict(row) for row in rows]})
        return
    cells = [[row.name, ", ".join(row.hosts), row.rate, row.delay or "-", row.owner] for row in rows]
    console().print(table(["net", "hosts", "rate", "delay", "owner"], cells, left=4))

"""Layers, parameters, FLOPs and bytes of a network."""

from __future__ import annotations

from typing import Annotated

import typer

import steplab
from steplab.cli._completion import complete_networks
from steplab.cli._options import pairs, shape
from steplab.cli._output import (
    EnvironmentOption,
    JsonOption,
    ModulesOption,
    command_app,
    console,
    next_step,
    print_json,
    table,
)
from steplab.core.errors import InputError

app = command_app()
# Short enough for a table of 80 columns; the JSON document has the full kinds.
SHORT = {"batch_norm": "norm", "layer_norm": "norm", "activation": "act", "global_avg_pool": "pool"}
SHORT |= {"adaptive_avg_pool": "pool", "avg_pool": "pool", "max_pool": "pool"}


@app.command()
def inspect(
    network: Annotated[
        str,
        typer.Argument(
            help="A built-in network, onnx:FILE or module:PACKAGE.MODULE:FUNCTION.", autocompletion=complete_networks
        ),
    ],
    batch: Annotated[int, typer.Option(min=1, max=2**31, help="Samples in a batch.")] = 1,
    input_: Annotated[str, typer.Option("--input", help="Shape of a sample, e.g. 3x224x224.")] = "",
    classes: Annotated[int, typer.Option(min=0, help="Number of classes; 0 is the network's usual.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="An option of the network, e.g. filters=8.")] = None,
    memory: Annotated[bool, typer.Option("--memory", help="What training holds in memory, instead of FLOPs.")] = False,
    recompute: Annotated[bool, typer.Option("--recompute", help="Blocks run forward again in backward.")] = False,
    strategy: Annotated[str, typer.Option(help="How several workers share a step: sync or sharded.")] = "sync",
    workers: Annotated[int, typer.Option(min=1, max=4096, help="Workers: what each holds and sends.")] = 1,
    optimizer: Annotated[str, typer.Option(help="With --memory: sgd, momentum or adam; sgd unless given.")] = "",
    precision: Annotated[str, typer.Option(help="With --memory: float32 (unless given) or bfloat16.")] = "",
    within: Annotated[str, typer.Option(help="With --memory: a size, for the largest batch that fits.")] = "",
    modules: ModulesOption = None,
    environment: EnvironmentOption = "",
    dataset: Annotated[str, typer.Option(help="Samples of one's own for a module:…, as module:FILE:FUNCTION.")] = "",
    json: JsonOption = False,
) -> None:
    """Layers, parameters, FLOPs and bytes of a network; one multiply-add counts as 2 FLOPs. Or what training holds.

    Example: steplab inspect resnet50 --batch 32 --input 3x64x64 --classes 200
    """
    options = pairs(set_ or [], "--set", "write it like filters=8")
    if memory:
        held = steplab.memory(
            network, batch, optimizer=optimizer or "sgd", precision=precision or "float32", within=within or None,
            recompute=recompute, strategy=strategy, workers=workers, input_shape=shape(input_),
            classes=classes or None, options=options, modules=modules, environment=environment, dataset=dataset,
        )  # fmt: skip
        print_json(held.document()) if json else _show_memory(held)
        return
    if optimizer or within or precision:
        raise InputError("--optimizer, --precision and --within are for --memory")
    counted = steplab.inspect(
        network, batch, input_shape=shape(input_), classes=classes or None, options=options, modules=modules,
        environment=environment, dataset=dataset, recompute=recompute, strategy=strategy, workers=workers,
    )  # fmt: skip
    if json:
        print_json(counted.document())
        return
    _show(counted)
    next_step(f"steplab roofline {network}  (where these layers stand on this machine)")


def _show_memory(held: steplab.MemoryReport) -> None:
    from steplab.api.sources.memory import memory_row

    out, rows = console(), [memory_row(layer) for layer in held.memory.layers]
    out.print(held.title, markup=False, soft_wrap=True)
    out.print(table(("layer", "kind", "parameters", "activations"), rows, left=2), width=min(80, out.width))
    for what, much in held.lines:
        out.print(f"{what:<17} {much}", markup=False, soft_wrap=True)


def _show(counted: steplab.NetworkReport) -> None:
    from steplab.api.sources.networks import layer_row

    columns = ("layer", "kind", "output", "params", "forward", "back", "bytes")
    out, cost = console(), counted.cost
    rows = [layer_row(layer) for layer in cost.layers]
    layers = table(columns, [(name, SHORT.get(str(kind), kind), *rest) for name, kind, *rest in rows], left=3)
    layers.padding = (0, 1, 0, 0)
    sample = "x".join(map(str, cost.input_shape))
    out.print(f"{cost.name}, input {sample}, batch {cost.batch}; FLOPs, 1 multiply-add = 2; float32", markup=False)
    out.print(layers, width=min(80, out.width))
    for what, much in counted.lines:
        out.print(f"{what:<17} {much}", markup=False, soft_wrap=True)

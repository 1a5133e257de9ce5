"""Layers, parameters, FLOPs and bytes of a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steplab.cli._output import JsonOption, ModulesOption, command_app, console, next_step, print_json, table
from steplab.core.errors import InputError

if TYPE_CHECKING:
    from steplab.costs.network import LayerCost, NetworkCost
    from steplab.costs.operation import Workload

app = command_app()
# Short enough for a table of 80 columns; the JSON document has the full kinds.
SHORT = {"batch_norm": "norm", "layer_norm": "norm", "activation": "act", "global_avg_pool": "pool"}
SHORT |= {"adaptive_avg_pool": "pool", "avg_pool": "pool", "max_pool": "pool"}


@app.command()
def inspect(
    network: Annotated[str, typer.Argument(help="A built-in network, onnx:FILE or module:PACKAGE.MODULE:FUNCTION.")],
    batch: Annotated[int, typer.Option(min=1, max=2**31, help="Samples in a batch.")] = 1,
    input_: Annotated[str, typer.Option("--input", help="Shape of a sample, e.g. 3x224x224.")] = "",
    classes: Annotated[int, typer.Option(min=0, help="Number of classes; 0 is the network's usual.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="An option of the network, e.g. filters=8.")] = None,
    modules: ModulesOption = None,
    json: JsonOption = False,
) -> None:
    """Layers, parameters, FLOPs and bytes of a network; one multiply-add counts as 2 FLOPs.

    Example: steplab inspect resnet50 --batch 32 --input 3x64x64 --classes 200
    """
    from steplab.costs.network import cost

    made = cost(_workload(network, batch, _shape(input_), classes or None, _options(set_ or []), modules))
    if json:
        from steplab.costs.document import document

        print_json(document(made))
        return
    _show(made)
    next_step(f"steplab roofline {network}  (where these layers stand on this machine)")


def _workload(
    network: str,
    batch: int,
    shape: tuple[int, ...] | None,
    classes: int | None,
    options: dict[str, str],
    modules: Path | None = None,
) -> Workload:
    kind = network.partition(":")[0] if ":" in network else ""
    if kind in ("onnx", "module") and (options or classes):
        raise InputError("--classes and --set are for built-in networks", where=network)
    if kind == "onnx":
        from steplab.costs.onnx_graph import read_onnx

        return read_onnx(network.removeprefix("onnx:"), batch, shape)
    if kind == "module":
        from steplab.runner.environments.user_networks import trace_module

        return trace_module(network, batch, shape, folder=modules)
    from steplab.costs.builtin import builtin

    return builtin(network, batch, shape, classes, options)


def _shape(text: str) -> tuple[int, ...] | None:
    if not text:
        return None
    parts = text.lower().split("x")
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 10 and int(part) for part in parts):
        raise InputError(f"{text!r} is not a shape", where="--input", hint="write it like 3x224x224")
    return tuple(map(int, parts))


def _options(pairs: list[str]) -> dict[str, str]:
    wrong = next((pair for pair in pairs if "=" not in pair), None)
    if wrong is not None:
        raise InputError(f"{wrong!r} is not an option", where="--set", hint="write it like filters=8")
    split = [pair.partition("=") for pair in pairs]
    return {key.strip(): value.strip() for key, _, value in split}


def _show(cost: NetworkCost) -> None:
    from steplab.core.units import count, size

    columns = ("layer", "kind", "output", "params", "forward", "back", "bytes")
    out, totals = console(), cost.totals
    layers = table(columns, [_row(layer) for layer in cost.layers], left=3)
    layers.padding = (0, 1, 0, 0)
    shape = "x".join(map(str, cost.input_shape))
    out.print(f"{cost.name}, input {shape}, batch {cost.batch}; FLOPs, 1 multiply-add = 2; float32", markup=False)
    out.print(layers, width=min(80, out.width))
    at_least = "at least " if cost.unknown else ""
    for line in (
        f"parameters        {cost.parameters:,}  ({size(cost.gradient_bytes)} of gradients to exchange)",
        f"forward           {at_least}{count(totals.forward_flops)}FLOP "
        f"({count(totals.forward_matmul_flops)}FLOP in convolutions and matrix products)",
        f"backward          {at_least}{count(totals.backward_flops)}FLOP",
        f"forward traffic   {at_least}{size(totals.forward_bytes)}, {totals.intensity or 0:.3g} FLOP/byte",
        f"activation memory {at_least}{size(totals.activation_bytes)}",
        f"update            {_updates(cost.parameters)}",
    ):
        out.print(line, markup=False, soft_wrap=True)
    for layer in cost.unknown:
        out.print(
            f"not counted       {layer.name}: the cost of {layer.kind} is not known", markup=False, soft_wrap=True
        )


def _row(layer: LayerCost) -> tuple[object, ...]:
    from steplab.core.units import count, size

    totals, shape = layer.totals, "x".join(map(str, layer.output_shape))
    head = (layer.name, SHORT.get(layer.kind, layer.kind), shape, count(layer.parameters) if layer.parameters else None)
    if totals is None:
        return (*head, "unknown", "unknown", "unknown")
    return (*head, count(totals.forward_flops), count(totals.backward_flops), size(totals.forward_bytes))


def _updates(parameters: int) -> str:
    from steplab.core.units import count
    from steplab.costs.network import OPTIMIZERS, update

    return ", ".join(f"{name} {count(update(parameters, name).flops)}FLOP" for name in OPTIMIZERS)

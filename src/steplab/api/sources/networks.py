"""What a network costs: layers, parameters, FLOPs and bytes, counted from its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steplab.api import display
from steplab.core.errors import InputError, allowed
from steplab.core.units import count, size
from steplab.costs.builtin import builtin
from steplab.costs.document import document
from steplab.costs.exchange import StepExchange, step_exchange
from steplab.costs.network import OPTIMIZERS, LayerCost, NetworkCost, cost, update
from steplab.costs.onnx_graph import read_onnx
from steplab.costs.operation import Workload
from steplab.costs.recompute import recomputing
from steplab.runner.environments.user_networks import OwnPlace, trace_module

STRATEGIES = ("sync", "sharded")
__all__ = ["LayerCost", "NetworkCost", "NetworkReport", "inspect", "workload"]


@dataclass(frozen=True, repr=False)
class NetworkReport:
    """A network's cost: `cost` holds it layer by layer."""

    cost: NetworkCost
    exchange: StepExchange | None = None  # between several workers, if that was asked for

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The totals in words: what, and how much."""
        cost, totals = self.cost, self.cost.totals
        at_least = "at least " if cost.unknown else ""
        products = f"{count(totals.forward_matmul_flops)}FLOP in convolutions and matrix products"
        updates = ", ".join(f"{name} {count(update(cost.parameters, name).flops)}FLOP" for name in OPTIMIZERS)
        known = [
            ("parameters", f"{cost.parameters:,}  ({size(cost.gradient_bytes)} of gradients to exchange)"),
            ("forward", f"{at_least}{count(totals.forward_flops)}FLOP ({products})"),
            ("backward", f"{at_least}{count(totals.backward_flops)}FLOP"),
            ("forward traffic", f"{at_least}{size(totals.forward_bytes)}, {totals.intensity or 0:.3g} FLOP/byte"),
            ("outputs of layers", f"{at_least}{size(totals.activation_bytes)} (--memory tells what training keeps)"),
            ("update", updates),
        ]
        known += [] if self.exchange is None else [("exchange", exchange_words(self.exchange))]
        missing = [("not counted", f"{layer.name}: the cost of {layer.kind} is not known") for layer in cost.unknown]
        return known + missing

    def document(self) -> dict[str, Any]:
        """What `steplab inspect --json` prints."""
        sent = {} if self.exchange is None else {**asdict(self.exchange), "sent_bytes": self.exchange.sent_bytes}
        return {**document(self.cost), **({"exchange": sent} if sent else {})}

    def __repr__(self) -> str:
        flops = count(self.cost.totals.forward_flops)
        return f"<{self.cost.name}: {self.cost.parameters:,} parameters, forward {flops}FLOP, batch {self.cost.batch}>"

    def _repr_html_(self) -> str:
        shape = "x".join(map(str, self.cost.input_shape))
        columns = ("layer", "kind", "output", "parameters", "forward FLOPs", "backward FLOPs", "bytes")
        return display.block(
            display.title(f"{self.cost.name}, input {shape}, batch {self.cost.batch}"),
            display.table(columns, [layer_row(layer) for layer in self.cost.layers], left=3),
            display.table(("total", ""), self.lines, left=2),
        )


def layer_row(layer: LayerCost) -> tuple[object, ...]:
    """A layer as a row of a table: name, kind, output, parameters, forward, backward, bytes."""
    totals, shape = layer.totals, "x".join(map(str, layer.output_shape))
    head = (layer.name, layer.kind, shape, count(layer.parameters) if layer.parameters else None)
    if totals is None:
        return (*head, "unknown", "unknown", "unknown")
    return (*head, count(totals.forward_flops), count(totals.backward_flops), size(totals.forward_bytes))


def inspect(
    network: str,
    batch: int = 1,
    *,
    input_shape: Sequence[int] | None = None,
    classes: int | None = None,
    options: Mapping[str, str] | None = None,
    modules: Path | str | None = None,
    environment: str = "",
    dataset: str = "",
    recompute: bool = False,
    strategy: str = "sync",
    workers: int = 1,
) -> NetworkReport:
    """Count layers, parameters, FLOPs and bytes of a network; one multiply-add counts as 2 FLOPs.

    Args:
        network: A built-in network, `onnx:FILE` or `module:PACKAGE.MODULE:FUNCTION`, whose code runs in PyTorch's
            environment.
        batch: Samples in a batch.
        input_shape: The shape of a sample, such as `(3, 224, 224)`; by default the network's usual.
        classes: The number of classes of a built-in network.
        options: Options of a built-in network, such as `{"filters": "8"}`.
        modules: The folder in which a module is looked for, by default the current one.
        environment: The environment in which a module runs, by default PyTorch's own.
        dataset: A data set of one's own, `module:…`, whose samples a module is given.
        recompute: Whether blocks run forward again in backward, which then counts that as well.
        strategy: How several workers share a step: `sync` or `sharded`.
        workers: How many there are, for what they send each other.
    """
    shards_of(strategy, workers)
    place = OwnPlace(None if modules is None else Path(modules), environment, dataset)
    operations = workload(network, batch, input_shape, classes, options or {}, place)
    if recompute:
        expect_blocks(operations)
    counted = recomputing(operations) if recompute else cost(operations)
    sent = step_exchange(counted, operations, strategy, workers) if workers > 1 else None
    return NetworkReport(counted, sent)


def shards_of(strategy: str, workers: int) -> int:
    """Among how many workers parameters are divided."""
    if strategy not in STRATEGIES:
        raise InputError(
            f"what workers hold and send with strategy {strategy!r} is not counted", hint=allowed(STRATEGIES)
        )
    if workers < 1:
        raise InputError(f"there must be a worker at least, not {workers}")
    return workers if strategy == "sharded" else 1


def exchange_words(exchange: StepExchange) -> str:
    """What a worker sends in a step, and for what."""
    parts = {
        "all-reduce": exchange.all_reduce_bytes, "all-gather": exchange.all_gather_bytes,
        "reduce-scatter": exchange.reduce_scatter_bytes,
    }  # fmt: skip
    named = ", ".join(f"{name} of {size(bytes_)}" for name, bytes_ in parts.items() if bytes_)
    return f"each of {exchange.workers} workers sends at least {size(exchange.sent_bytes)} in a step ({named})"


def expect_blocks(operations: Workload) -> None:
    """Say so if there is no block that could be recomputed."""
    if not any(operation.block for operation in operations.operations):
        raise InputError("it has no blocks that could be recomputed", where=operations.name)


def workload(
    network: str,
    batch: int,
    shape: Sequence[int] | None,
    classes: int | None = None,
    options: Mapping[str, str] | None = None,
    place: OwnPlace | None = None,
) -> Workload:
    """The operations of one forward pass."""
    kind = network.partition(":")[0] if ":" in network else ""
    sample = None if shape is None else tuple(shape)
    if kind in ("onnx", "module") and (options or classes):
        raise InputError("classes and options are for built-in networks", where=network)
    if kind == "onnx":
        return read_onnx(network.removeprefix("onnx:"), batch, sample)
    if kind == "module":
        return trace_module(network, batch, sample, place)
    if place and (place.environment or place.dataset):
        raise InputError("an environment and a data set are for networks of one's own, module:…", where=network)
    return builtin(network, batch, sample, classes, dict(options or {}))

"""The JSON document of a network's cost, as `steplab inspect --json` prints it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from steplab.costs.network import CONVENTION, OPTIMIZERS, LayerCost, NetworkCost, Totals, update


def document(cost: NetworkCost) -> dict[str, Any]:
    """A network's cost as one JSON-ready document; what is not known is null."""
    return {
        "network": cost.name,
        "batch": cost.batch,
        "input_shape": list(cost.input_shape),
        "convention": CONVENTION,
        "parameters": cost.parameters,
        **_totals(cost.totals),
        **_learning(cost.parameters, cost.gradient_bytes),
        "complete": not cost.unknown,
        "unknown": [{"name": layer.name, "kind": layer.kind} for layer in cost.unknown],
        "layers": [_layer(layer) for layer in cost.layers],
    }


def _layer(layer: LayerCost) -> dict[str, Any]:
    return {
        "name": layer.name,
        "kind": layer.kind,
        "output_shape": list(layer.output_shape),
        "parameters": layer.parameters,
        **_totals(layer.totals),
        **_learning(layer.parameters, layer.gradient_bytes),
    }


def _totals(totals: Totals | None) -> dict[str, Any]:
    names = [*Totals.__dataclass_fields__, "forward_bytes", "backward_bytes", "intensity"]
    return {name: getattr(totals, name) if totals else None for name in names}


def _learning(parameters: int, gradient_bytes: int) -> dict[str, Any]:
    updates = {name: asdict(update(parameters, name)) for name in OPTIMIZERS}
    return {"gradient_bytes": gradient_bytes, "update": updates}

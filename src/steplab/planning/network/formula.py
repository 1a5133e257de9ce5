"""A predicted step as a formula of bandwidth, latency and accumulation, for sliders.

The same schedule with one message in flight and no CPU to share: messages queue, so the last one ends at
max_i (ready_i + Σ_{j ≥ i} message_j), and each message is latency·L_j + M_j/bandwidth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steplab.models.formulas.formula import Formula, Node, column, number, op
from steplab.planning.network.compute import Compute
from steplab.planning.network.step import USUAL, Layout, Method, StepMessages, step_messages
from steplab.planning.network.wires import Wires

BANDWIDTH, LATENCY, ACCUMULATE = "times_bandwidth", "times_latency", "accumulate"


@dataclass(frozen=True)
class StepFormula:
    """An iteration's seconds by so many times the bandwidth, so many times the latency, and batches per exchange."""

    formula: Formula
    layout: Layout


def step_formula(compute: Compute, wires: Wires, layout: Layout, method: Method = USUAL) -> StepFormula:
    """The formula of a layout; what accumulates is left open."""
    sent = step_messages(compute, wires, layout, method)
    iteration, k = number(sent.forward + sent.backward), column(ACCUMULATE)
    exposed = op("sub", _ended(sent), number(sent.backward))
    once = op("add", exposed, _seconds([sent.broadcast]), number(sent.update))
    return StepFormula(Formula(op("add", iteration, op("div", once, k))), layout)


def _ended(sent: StepMessages) -> Node:
    """When the last message is there, after the beginning of backward."""
    ends = [
        op("add", number(message.ready), _seconds([(later.latency, later.moving) for later in sent.messages[at:]]))
        for at, message in enumerate(sent.messages)
    ]
    return op("max", number(sent.backward), *ends)


def _seconds(messages: Sequence[tuple[float, float]]) -> Node:
    latency, moving = (sum(part[at] for part in messages) for at in (0, 1))
    return op("add", op("mul", number(latency), column(LATENCY)), op("div", number(moving), column(BANDWIDTH)))

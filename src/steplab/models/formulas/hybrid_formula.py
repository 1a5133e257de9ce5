"""The law of a synchronous step as a formula, and its coefficients with their meanings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steplab.models.formulas.formula import Formula, Node, column, level, number, op, power
from steplab.models.formulas.physics import GROWTH_WIDTH, Factor, StepLaw, growth, overlap
from steplab.models.parameter import Parameter

Array = np.ndarray
MEANINGS = {
    "overhead": ("fixed cost of a step", "c_0"),
    "per_sample": ("compute per sample", "c_1"),
    "overlap": ("overlap (1 none, 10 full)", "γ"),
    "growth": ("growth (-1 ring, 0 log, 1 linear)", "p"),
    "latency": ("communication of two workers", "s_0"),
    "reach": ("communication that grows", "s_1"),
    "between": ("communication of two nodes", "s_2"),
    "within": ("communication within a node", "s_3"),
    "wire": ("share of the profile's exchange", "w_0"),
    "contention": ("slower compute for each other worker", "c_2"),
}
# A coefficient is determined if its standard error stays below this: a factor of two for times.
DETERMINED = 0.7
DETERMINED_POWER = 0.5


def law_formula(law: StepLaw, theta: Array) -> Formula:
    """The law with its fitted numbers."""
    return Formula(_law(law, theta))


def corrected(law: Node, correction: Node | None) -> Node:
    """A law times the exponential of its local correction, if there is one."""
    return law if correction is None else op("mul", law, op("exp", correction))


def _law(law: StepLaw, theta: Array) -> Node:
    value = dict(zip(law.names, theta, strict=True))
    compute = _compute(law, value)
    if not law.parts.workers:
        return compute
    gamma = overlap(value["overlap"])
    both = op("add", _raised(compute, gamma), _raised(_sync(law, value), gamma))
    return _raised(both, 1 / gamma)


def _raised(node: Node, exponent: float) -> Node:
    return op("pow", node, number(exponent))


def _times(*nodes: Node) -> Node:
    return nodes[0] if len(nodes) == 1 else op("mul", *nodes)


def _sum(nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else op("add", *nodes)


def _compute(law: StepLaw, value: dict[str, float]) -> Node:
    constant, sizes = _sizes(law, value, "compute")
    parts = law.parts
    nodes = [number(float(np.exp(value["per_sample"] + constant)))]
    nodes += [column(parts.batch)] if parts.batch else []
    own = _times(*nodes, *sizes)
    own = op("div", own, _workers(law)) if parts.shared else own
    if "overhead" in value:
        own = op("add", number(float(np.exp(value["overhead"]))), own)
    slower = [_contention(law, value)] if "contention" in value else []
    return _times(own, *slower, *_levels(law, value, "compute"))


def _contention(law: StepLaw, value: dict[str, float]) -> Node:
    sharing = op("div", _workers(law), _nodes(law)) if law.parts.nodes else _workers(law)
    others = op("mul", number(float(np.exp(value["contention"]))), op("sub", sharing, number(1)))
    return op("add", number(1), others)


def _sync(law: StepLaw, value: dict[str, float]) -> Node:
    constant, sizes = _sizes(law, value, "sync")
    scale = float(np.exp(constant))
    workers, p = _workers(law), growth(value["growth"])
    across = _nodes(law) if law.parts.nodes and not law.flat else workers
    coefficient = {name: scale * float(np.exp(value[name])) for name in ("latency", "reach")}
    terms = [op("mul", number(coefficient["latency"]), _more_than_one(workers))]
    if abs(p) > 1e-6:
        grown = op("sub", _raised(across, p), number(1))
        terms.append(op("mul", number(coefficient["reach"] / p), grown))
    else:
        terms.append(op("mul", number(coefficient["reach"]), op("log", across)))
    if law.parts.nodes:
        terms.append(op("mul", number(scale * float(np.exp(value["between"]))), _more_than_one(_nodes(law))))
    if "within" in value:
        within = op("log", op("div", workers, _nodes(law)))
        terms.append(op("mul", number(scale * float(np.exp(value["within"]))), within))
    fitted = _times(_sum(terms), *sizes, *_levels(law, value, "sync"))
    if "wire" not in value:
        return fitted
    exchange = op("max", number(0), column(law.parts.exchange))
    return op("add", fitted, op("mul", number(float(np.exp(value["wire"]))), exchange))


def _workers(law: StepLaw) -> Node:
    """The workers, of which there is always one: below that the law has no meaning."""
    return op("max", number(1), column(law.parts.workers))


def _nodes(law: StepLaw) -> Node:
    """The nodes, at least one and at most as many as workers."""
    return op("min", _workers(law), op("max", number(1), column(law.parts.nodes)))


def _more_than_one(count: Node) -> Node:
    """1 for two and more, 0 for one: the counts are whole numbers."""
    return op("min", number(1), op("sub", count, number(1)))


def _sizes(law: StepLaw, value: dict[str, float], part: str) -> tuple[float, list[Node]]:
    """The numeric factors' terms, and the constant (in logarithms) that their centres leave."""
    constant, nodes = 0.0, []
    for factor in law.factors:
        exponent = value[f"{part}:{factor.column}:{factor.level}"]
        if factor.kind == "power":
            constant -= exponent * float(np.log(factor.centre))
            nodes.append(power(factor.column, exponent))
        elif factor.kind == "linear":
            constant -= exponent * factor.centre / factor.scale
            nodes.append(op("exp", op("mul", number(exponent / factor.scale), column(factor.column))))
    return constant, nodes


def _levels(law: StepLaw, value: dict[str, float], part: str) -> list[Node]:
    by_column: dict[str, dict[str, float]] = {}
    for factor in law.factors:
        if factor.kind == "level":
            effect = float(np.exp(value[f"{part}:{factor.column}:{factor.level}"]))
            by_column.setdefault(factor.column, {factor.reference: 1.0})[factor.level] = effect
    return [level(name, effects) for name, effects in by_column.items()]


def law_parameters(law: StepLaw, theta: Array, errors: Array) -> list[Parameter]:
    """The coefficients in the target's unit, with intervals and whether the data determine them."""
    parameters = []
    named = {f"{part}:{f.column}:{f.level}": (part, f) for part in ("compute", "sync") for f in law.factors}
    for name, value, error in zip(law.names, theta, errors, strict=True):
        meaning, symbol = MEANINGS[name] if name in MEANINGS else _factor_meaning(*named[name])
        read = _reader(name, named)
        low, middle, high = (read(v) for v in (value - 1.96 * error, value, value + 1.96 * error))
        limit = DETERMINED if name in MEANINGS and name != "growth" else DETERMINED_POWER
        # What is hardly narrower than its prior was told by the prior, not by the data.
        limit = GROWTH_WIDTH / 2 if name == "growth" else limit
        parameters.append(Parameter(meaning, symbol, middle, low, high, bool(error < limit)))
    return parameters


def _factor_meaning(part: str, factor: Factor) -> tuple[str, str]:
    what = "compute" if part == "compute" else "communication"
    sign = "u" if part == "compute" else "v"
    if factor.kind == "level":
        own = f"{factor.column}={factor.level}"
        return f"{own} in {what}", f"{sign}[{own}]"
    return f"{factor.column} in {what}", f"{sign}[{factor.column}]"


def _reader(name: str, named: dict[str, tuple[str, Factor]]) -> Callable[[float], float]:
    """How an unknown of the fit becomes the number that is reported."""
    if name == "overlap":
        return overlap
    if name == "growth":
        return growth
    if name in named and named[name][1].kind != "level":
        scale = named[name][1].scale if named[name][1].kind == "linear" else 1.0
        return lambda theta: float(theta / scale)
    return lambda theta: float(np.exp(np.clip(theta, -40, 40)))

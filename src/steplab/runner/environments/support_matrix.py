"""Which framework can do what, from the declarations alone; nothing is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steplab import kinds
from steplab.core import catalogue
from steplab.core.framework import Framework
from steplab.core.resolution import impossible, resolve
from steplab.core.trial import STRATEGIES, Level
from steplab_worker import data

SINGLE = "one worker"
SEVERAL = "several workers"
INFERENCE = "inference"


@dataclass(frozen=True)
class Support:
    """Whether a framework trains (or infers with) a network by a strategy and a distribution; no reason means yes."""

    framework: str
    network: str
    strategy: str
    distribution: str
    reason: str

    @property
    def answer(self) -> str:
        """Yes, or why not."""
        return self.reason or "yes"


@dataclass(frozen=True)
class Summary:
    """The networks that get the same answer."""

    framework: str
    strategy: str
    distribution: str
    networks: tuple[str, ...]
    answer: str


def support_matrix() -> list[Support]:
    """One row for each framework, network, strategy and distribution; the virtual frameworks are left out.

    >>> [row.answer for row in support_matrix() if (row.framework, row.network) == ("chainer", "mlp")][:2]
    ['yes', 'yes']
    """
    frameworks = [catalogue.framework(name) for name in catalogue.framework_names()]
    return [
        _row(framework, network, strategy, distribution)
        for framework in frameworks
        if framework.needs_environment
        for network in catalogue.network_names()
        for strategy, distribution in _ways(framework)
    ]


def summarised(rows: list[Support]) -> list[Summary]:
    """The rows with all networks of the same answer in one."""
    networks: dict[tuple[str, str, str, str], list[str]] = {}
    for row in rows:
        networks.setdefault((row.framework, row.strategy, row.distribution, row.answer), []).append(row.network)
    return [Summary(*key[:3], tuple(names), key[3]) for key, names in networks.items()]


def _ways(framework: Framework) -> Iterator[tuple[str, str]]:
    """Strategies and distributions; a framework with a factor `distribution` has one row for each of its levels."""
    own = framework.factors.get("distribution")
    several = [str(level) for level in own.levels or ()] if own else [SEVERAL]
    yield INFERENCE, SINGLE
    for strategy in STRATEGIES:
        yield strategy, SINGLE
        for distribution in several:
            yield strategy, distribution


def _row(framework: Framework, network: str, strategy: str, distribution: str) -> Support:
    config: dict[str, Level] = {"framework": framework.name, "network": network, "dataset": _dataset(network)}
    config["workers"] = 1 if distribution == SINGLE else 2
    if strategy != INFERENCE:
        config["strategy"] = "accumulate:2" if strategy == "accumulate" else strategy
    if distribution not in (SINGLE, SEVERAL):
        config["distribution"] = distribution
    kind = kinds.named("infer" if strategy == INFERENCE else "step")
    reason = kind.unsupported(resolve(config))
    return Support(framework.name, network, strategy, distribution, reason)


def _dataset(network: str) -> str:
    """A data set whose samples the network takes."""
    names = sorted(data.datasets())
    return next((name for name in names if not impossible({"network": network, "dataset": name})), names[0])

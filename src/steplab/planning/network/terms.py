"""The exchange of a configuration as a number for fitted models: what a profile says its gradients take."""

from __future__ import annotations

from collections.abc import Mapping

from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.core.resolution import Resolved
from steplab.core.trial import Level
from steplab.planning.network.buckets import buckets, exchanged_graph, gradients
from steplab.planning.network.profile import Profile
from steplab.planning.network.wires import Wires

REPLACED = ("rate", "placement")  # factors that only say which network it is
ALL_REDUCED = ("sync", "accumulate", "ps-sync")


def exchange_seconds(resolved: Resolved, profile: Profile) -> float:
    """Seconds of an iteration's exchange, one message after the other, whatever hides it; none of one worker."""
    if resolved.workers < 2:
        return 0.0
    if resolved.strategy.partition(":")[0] not in ALL_REDUCED:
        raise InputError(f"strategy = {resolved.strategy!r} exchanges otherwise than a profile measures")
    graph = exchanged_graph(resolved)
    wires = Wires(profile, resolved.rate)
    habit = catalogue.framework(resolved.framework).exchange
    messages = buckets(gradients(graph, {}), habit, bucket_mb(resolved.framework_options))
    whole = sum(wires.exchange(each.bytes, resolved.workers, resolved.nodes).seconds for each in messages)
    return whole / resolved.accumulate


def bucket_mb(options: Mapping[str, Level]) -> float:
    """The size of buckets that a configuration sets; 0 leaves it to the framework."""
    return float(options.get("bucket_mb", 0.0))

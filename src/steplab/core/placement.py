"""How a trial's workers are laid out over hosts: `workers`, `nodes`, `ranks_per_node`, of which any two give the third.

What is not said takes as few hosts as possible, but a cluster in a box has one worker on each of its hosts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from steplab.core.trial import Config

FACTORS = ("workers", "nodes", "ranks_per_node")
NET = "net:"  # the prefix of a cluster in a box
UNSHAPED = "unshaped"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")  # of a net; its hosts' names begin with it
_RATE = re.compile(r"(\d{1,6})(kbit|mbit|gbit)")
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_SLOWEST = 64e3  # bits a second


@dataclass(frozen=True)
class Grid:
    """So many workers on so many hosts."""

    workers: int
    nodes: int
    ranks_per_node: int


def grid(config: Config) -> Grid:
    """The layout that a configuration says, if it is possible.

    >>> grid({"workers": 4}), grid({"workers": 4, "nodes": 2})
    (Grid(workers=4, nodes=1, ranks_per_node=4), Grid(workers=4, nodes=2, ranks_per_node=2))
    >>> grid({"nodes": 2, "ranks_per_node": 3}), grid({"workers": 3, "placement": "net:box"})
    (Grid(workers=6, nodes=2, ranks_per_node=3), Grid(workers=3, nodes=3, ranks_per_node=1))
    """
    workers, nodes, each = (int(config[name]) if name in config else 0 for name in FACTORS)
    if is_net(config) and not (nodes or each):
        each = 1
    if workers and each and not nodes:
        nodes = max(1, workers // each)
    nodes = nodes or 1
    workers = workers or nodes * (each or 1)
    return Grid(workers, nodes, max(1, workers // nodes))


def is_net(config: Config) -> bool:
    """Whether a configuration runs in a cluster in a box."""
    return str(config.get("placement", "")).startswith(NET)


def impossible(config: Config) -> str:
    """Why workers cannot be laid out so, or an empty string.

    >>> impossible({"workers": 3, "nodes": 2})
    '3 workers cannot be divided evenly among 2 nodes'
    >>> impossible({"rate": "1gbit"})
    "rate = '1gbit' needs placement = 'net:NAME': only the lines of a cluster in a box can be slowed down"
    """
    workers, nodes, each = (int(config[name]) if name in config else 0 for name in FACTORS)
    if workers and nodes and workers % nodes:
        return f"{workers} workers cannot be divided evenly among {nodes} nodes"
    if workers and each and workers % each:
        return f"{workers} workers cannot be divided into nodes of {each}"
    if config.get("rate") and not is_net(config):
        needed = "only the lines of a cluster in a box can be slowed down"
        return f"rate = {config['rate']!r} needs placement = 'net:NAME': {needed}"
    return ""


def placement_problem(level: object) -> str:
    """What is wrong with a level of `placement`, or an empty string.

    >>> placement_problem("net:box"), placement_problem("box")
    ('', "must be 'net:NAME' with a name of lower-case letters, digits and dashes, at most 32, or ''")
    """
    name = level.removeprefix(NET) if isinstance(level, str) and level.startswith(NET) else ""
    right = level == "" or NAME.fullmatch(name) is not None
    return "" if right else "must be 'net:NAME' with a name of lower-case letters, digits and dashes, at most 32, or ''"


def rate_problem(level: object) -> str:
    """What is wrong with a rate, or an empty string.

    >>> rate_problem("1gbit"), rate_problem("fast"), rate_problem("1kbit")
    ('', "must be 'unshaped' or a rate such as '1gbit', '100mbit'", 'must be at least 64kbit')
    """
    if level in ("", UNSHAPED):
        return ""
    if not isinstance(level, str) or not _RATE.fullmatch(level):
        return "must be 'unshaped' or a rate such as '1gbit', '100mbit'"
    return "" if bits_per_second(level) >= _SLOWEST else "must be at least 64kbit"


def bits_per_second(rate: str) -> float:
    """A rate as a number; infinite if it is not shaped.

    >>> bits_per_second("100mbit"), bits_per_second("unshaped")
    (100000000.0, inf)
    """
    parts = _RATE.fullmatch(rate)
    return int(parts[1]) * _UNITS[parts[2]] if parts else float("inf")

"""The members of a group: its ranks, and the auxiliary roles that a framework declares beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steplab.core import catalogue

RANK = "rank"


@dataclass(frozen=True)
class Member:
    """One of those that speak to the laboratory; ranks are numbered first."""

    number: int
    role: str
    name: str

    @property
    def is_rank(self) -> bool:
        """Whether it takes part in the trial itself."""
        return self.role == RANK


def members(framework: str, ranks: int, options: Mapping[str, object]) -> tuple[Member, ...]:
    """The ranks of a group and, if there are several, the roles that its framework declares.

    >>> [member.name for member in members("mxnet", 2, {"servers": 1})]
    ['rank 0', 'rank 1', 'scheduler 0', 'server 0']
    """
    roles = catalogue.framework(framework).auxiliary(ranks, options)
    wanted = [(RANK, index) for index in range(ranks)]
    wanted += [(role, index) for role, count in roles.items() for index in range(count)]
    return tuple(Member(number, role, f"{role} {index}") for number, (role, index) in enumerate(wanted))

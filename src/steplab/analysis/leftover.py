"""Whether the phases of a step add up to the step, in words; measured ones do, published ones often do not."""

from __future__ import annotations

from collections.abc import Sequence

from steplab.analysis.summary import Group

MUCH = 0.25  # share of a step that may stay unexplained before it is said
OVER = 0.03  # share by which phases may exceed their step
NAMED = 3


def unexplained(groups: Sequence[Group], varied: Sequence[str]) -> list[str]:
    """A sentence on configurations whose phases do not sum to t_iter; none if all do."""
    shares = [(_share(group), group) for group in groups if group.phases]
    wrong = sorted((one for one in shares if not -OVER <= one[0] <= MUCH), key=lambda one: -abs(one[0]))
    if not wrong:
        return []
    text = f"In {len(wrong)} of {len(shares)} configurations the phases do not sum to t_iter: "
    text += "; ".join(_said(share, group, varied) for share, group in wrong[:NAMED])
    return [text + (f"; and {len(wrong) - NAMED} more." if len(wrong) > NAMED else ".")]


def _share(group: Group) -> float:
    """The part of a step that no phase explains; negative if the phases say more than the step."""
    total = sum(group.phases.values())
    return group.phases.get("t_other", 0.0) / total if total else 0.0


def _said(share: float, group: Group, varied: Sequence[str]) -> str:
    label = ", ".join(f"{name} {group.factors[name]}" for name in varied if name in group.factors)
    named = label or "the only configuration"
    if share > 0:
        return f"{named} leaves {share:.0%} of the step unexplained"
    return f"{named} has {-share:.0%} of the step too much in its phases"

"""The findings in sentences with numbers; nothing is called different that the intervals leave in doubt."""

from __future__ import annotations

from steplab.analysis.leftover import unexplained
from steplab.analysis.study import Analysis
from steplab.analysis.summary import Group
from steplab.core.units import count, seconds, span

COMPUTE = ("t_f", "t_b")
NAMES = {
    "t_io": "reading data",
    "t_h2d": "moving data to the device",
    "t_md": "dividing the batch",
    "t_f": "the forward pass",
    "t_b": "the backward pass",
    "t_c": "exchanging gradients (waiting included)",
    "t_u": "the update",
    "t_other": "nothing that a phase explains",
}


def sentences(analysis: Analysis) -> list[str]:
    """Three to six sentences that answer first."""
    if not analysis.groups:
        return ["No trial of this study has been measured.", analysis.noise.advice]
    said = [_fastest(analysis), _where(analysis.groups[0], analysis)]
    said += [text for text in (_scaling(analysis), _effect(analysis)) if text]
    said += unexplained(analysis.groups, analysis.varied)
    said.append(_trust(analysis))
    return said


def _label(group: Group, analysis: Analysis) -> str:
    varied = {name: group.factors[name] for name in analysis.varied if name in group.factors}
    return ", ".join(f"{name} {level}" for name, level in varied.items()) or "the only configuration"


def _fastest(analysis: Analysis) -> str:
    best, *equals = analysis.fastest
    text = (
        f"The highest throughput is {count(best.throughput)} samples/s with {_label(best, analysis)}: "
        f"a step takes {seconds(best.t_iter.median)} ({span(best.t_iter.low, best.t_iter.high)})."
    )
    if equals:
        text += f" {len(equals)} other configuration{'s' if len(equals) > 1 else ''} cannot be told from it."
    return text


def _where(group: Group, analysis: Analysis) -> str:
    total = sum(group.phases.values())
    if not total:
        return "Phases were not measured, so where the time goes is not known."
    shares = sorted(((value / total, name) for name, value in group.phases.items()), reverse=True)
    parts = [f"{NAMES[name]} takes {share:.0%}" for share, name in shares[:3] if share >= 0.01]
    return f"There, of a step, {', '.join(parts)}."


def _scaling(analysis: Analysis) -> str:
    several = [group for group in analysis.groups if group.speedup and group.efficiency and group.efficiency != 1.0]
    if not several:
        return ""
    best = max(several, key=lambda group: group.efficiency or 0.0)
    worst = min(several, key=lambda group: group.efficiency or 0.0)
    assert best.speedup and worst.speedup
    text = f"More workers scale with {best.efficiency:.0%} efficiency at best ({_label(best, analysis)}: "
    text += f"speed-up {best.speedup.value:.2f}, {best.speedup.low:.2f} to {best.speedup.high:.2f})"
    if worst is best:
        return text + "."
    return text + f" and {worst.efficiency:.0%} at worst ({_label(worst, analysis)})."


def _effect(analysis: Analysis) -> str:
    sure = [effect for effect in analysis.effects if effect.differs]
    if not sure:
        return "No factor alone has an effect on the step time that the noise leaves beyond doubt."
    most = max(sure, key=lambda effect: abs(effect.ratio - 1.0) if effect.ratio > 1 else 1 / effect.ratio - 1)
    return (
        f"The strongest single effect on the step time is {most.factor}: {most.level} instead of {most.reference} "
        f"multiplies it by {most.ratio:.2f} ({most.low:.2f} to {most.high:.2f})."
    )


def _trust(analysis: Analysis) -> str:
    noise = analysis.noise
    if noise.between is None:
        return f"How far to trust this is unknown. {noise.advice}"
    text = f"The measurements are {noise.verdict}: replicates differ by {noise.between:.1%}"
    text += f", so differences below {noise.detectable:.0%} cannot be seen." if noise.detectable else "."
    failed = f" {analysis.failed} of {analysis.trials} trials failed." if analysis.failed else ""
    return f"{text}{failed} {noise.advice}"

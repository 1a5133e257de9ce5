"""The sections of `steplab analyze`: what each shows, and why it may have nothing to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steplab.api.results.findings import Analysis
from steplab.cli import _findings as findings
from steplab.cli._findings import View
from steplab.cli._output import console


@dataclass(frozen=True)
class Section:
    """A section: how it is shown, whether a study has anything for it, and what is missing if not."""

    show: Callable[[View], None]
    holds: Callable[[Analysis], bool] = lambda analysis: True
    missing: str = ""


# In the order in which they are shown; `why` only when it is asked for.
SECTIONS: dict[str, Section] = {
    "answer": Section(findings.answer),
    "why": Section(
        findings.why, lambda analysis: bool(analysis.why),
        "there is no configuration with several workers and one with a single worker to compare it with",
    ),
    "accuracy": Section(
        findings.accuracy, lambda analysis: analysis.training is not None,
        'only studies of kind "train" have accuracies',
    ),
    "latency": Section(
        findings.latency, lambda analysis: analysis.inference is not None,
        'only studies of kind "infer" have latencies',
    ),
    "configurations": Section(
        findings.configurations, lambda analysis: bool(analysis.groups), "no trial has been measured"
    ),
    "phases": Section(
        findings.phases, lambda analysis: any(group.phases for group in analysis.groups),
        "phases were not measured; set phases = true in the study",
    ),
    "utilisation": Section(
        findings.utilisation, lambda analysis: any(group.utilisation for group in analysis.groups),
        "neither tokens nor FLOPs of these trials are known",
    ),
    "precision": Section(
        findings.precision, lambda analysis: bool(analysis.precision),
        "no configuration was measured in float32 and in another precision",
    ),
    "layers": Section(
        findings.layers, lambda analysis: analysis.layers is not None,
        "no layer was timed; set phases = true, and see `steplab env list` for frameworks that can time layers",
    ),
    "scaling": Section(
        findings.scaling, lambda analysis: bool(analysis.scaling),
        "no configuration was measured with two numbers of workers",
    ),
    "frameworks": Section(
        findings.frameworks, lambda analysis: bool(analysis.frameworks),
        "no two frameworks were measured in the same configuration",
    ),
    "effects": Section(
        findings.effects, lambda analysis: bool(analysis.effects or analysis.designed.factors), "no factor varies"
    ),
    "imbalance": Section(
        findings.imbalance, lambda analysis: bool(analysis.imbalance),
        "no rank waits for another one for long, or no rank's phases were measured",
    ),
    "noise": Section(findings.noise, lambda analysis: bool(analysis.groups), "no trial has been measured"),
}  # fmt: skip
APART = ("answer", "configurations", "why")  # shown by default, or offered by an option of their own


def offered(analysis: Analysis) -> list[str]:
    """The sections with content that are shown only on request."""
    return [name for name, section in SECTIONS.items() if name not in APART and section.holds(analysis)]


def show(names: Sequence[str], view: View, *, asked: bool) -> None:
    """Show sections; of one that was asked for and is empty, say why."""
    for name in names:
        section = SECTIONS[name]
        if section.holds(view.analysis):
            section.show(view)
        elif asked:
            console().print(f"{name}: nothing to show: {section.missing}.", markup=False)

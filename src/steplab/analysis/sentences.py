"""The findings in sentences with numbers; nothing is called different that the intervals leave in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steplab.analysis.latency_sentences import latency_sentences
from steplab.analysis.study import Analysis
from steplab.analysis.summary import Group, Ratio
from steplab.analysis.training_sentences import praised, throughput_sentence, training_sentences
from steplab.core.units import count, seconds, span
from steplab_worker.phases import WORDS

Evidence = Literal["accuracy", "latency", "configurations", "phases", "scaling", "frameworks", "effects", "noise"]


@dataclass(frozen=True)
class Sentence:
    """A sentence and the section that holds its evidence, for links in a report."""

    text: str
    evidence: Evidence

    def __str__(self) -> str:
        return self.text


def sentences(analysis: Analysis) -> list[Sentence]:
    """A few sentences that answer first: what a training reached, how long an inference takes, else what is fastest."""
    if not analysis.groups:
        advice = Sentence(analysis.noise.advice, "noise")
        return [Sentence("No trial of this study has been measured.", "configurations"), advice]
    answers: list[tuple[str, Evidence]] = [
        *_asked(analysis),
        (_where(analysis), "phases"),
        (_scaling(analysis), "scaling"),
        (_frameworks(analysis), "frameworks"),
        (_effect(analysis), "effects"),
        (_trust(analysis), "noise"),
    ]
    return [Sentence(text, evidence) for text, evidence in answers if text]


def _asked(analysis: Analysis) -> list[tuple[str, Evidence]]:
    """What the kind of the study asks for, then what is assumed."""
    training, inference = analysis.training, analysis.inference
    answers: list[tuple[str, Evidence]] = []
    if training is not None:
        answers += [(text, "accuracy") for text in training_sentences(analysis, training)]
        answers.append((throughput_sentence(analysis, training), "configurations"))
    elif inference is not None:
        answers += [(text, "latency") for text in latency_sentences(analysis, inference)]
    else:
        answers.append((_fastest(analysis), "configurations"))
    answers += [(factor.sentence, "configurations") for factor in analysis.dependent]
    return [*answers, (analysis.assumption, "configurations")]


def _label(group: Group, analysis: Analysis) -> str:
    varied = {name: group.factors[name] for name in analysis.varied if name in group.factors}
    return ", ".join(f"{name} {level}" for name, level in varied.items()) or "the only configuration"


def _fastest(analysis: Analysis) -> str:
    best, *equals = analysis.fastest
    text = f"The shortest step takes {seconds(best.t_iter.median)}{_span(best)}, with {_label(best, analysis)}."
    if best.throughput is not None:
        text = f"The highest throughput is {count(best.throughput)} samples/s with {_label(best, analysis)}: "
        text += f"a step takes {seconds(best.t_iter.median)}{_span(best)}."
    if equals:
        text += f" {len(equals)} other configuration{'s' if len(equals) > 1 else ''} cannot be told from it."
    return text


def _span(group: Group) -> str:
    return f" ({span(*group.t_iter.ends)})" if group.t_iter.ends else ""


def _where(analysis: Analysis) -> str:
    """Where the time of a step goes, in the configuration that was praised for its throughput."""
    group = next(iter(praised(analysis)), analysis.groups[0])
    total = sum(group.phases.values())
    if not total and (analysis.training or analysis.inference):
        return ""  # only steps are taken apart
    if not total:
        return "Phases were not measured, so where the time goes is not known."
    shares = sorted(((value / total, name) for name, value in group.phases.items()), reverse=True)
    parts = [f"{WORDS[name]} takes {share:.0%}" for share, name in shares[:3] if share >= 0.01]
    whole = f"the phased step ({group.phased_apart})" if group.phased_apart else "a step"
    text = f"{f'With {_label(group, analysis)}, of' if analysis.varied else 'Of'} {whole}, {', '.join(parts)}."
    if analysis.unexplained:
        worst, several = analysis.unexplained[0], len(analysis.unexplained)
        text += f" In {several} configuration{'s' if several > 1 else ''} the phases do not sum to t_iter; at worst "
        text += f"they make {1 - worst.share:.0%} of it."
    return text


def _scaling(analysis: Analysis) -> str:
    several = [group for group in analysis.groups if group.speedup and group.efficiency and group.efficiency != 1.0]
    if not several:
        return ""
    best = max(several, key=lambda group: group.efficiency or 0.0)
    worst = min(several, key=lambda group: group.efficiency or 0.0)
    assert best.speedup and worst.speedup
    text = f"More workers scale with {best.efficiency:.0%} efficiency at best ({_label(best, analysis)}: "
    text += f"speed-up {best.speedup.value:.2f}{_ends(best.speedup)})"
    if worst is best:
        return f"{text}.{_cause(analysis)}"
    text += f" and {worst.efficiency:.0%} at worst ({_label(worst, analysis)})"
    doubt = "" if _surely_above(best.speedup, worst.speedup, best, worst) else ", which noise alone could make"
    return f"{text}{doubt}.{_cause(analysis)}"


def _ends(speedup: Ratio) -> str:
    return "" if speedup.low is None or speedup.high is None else f", {speedup.low:.2f} to {speedup.high:.2f}"


def _surely_above(best: Ratio, worst: Ratio, first: Group, second: Group) -> bool:
    """Whether two efficiencies' intervals are apart; those of a single trial say nothing about another process."""
    if best.low is None or worst.high is None or min(first.t_iter.n, second.t_iter.n) == 1:
        return False
    return (first.efficiency or 0.0) * best.low / best.value > (second.efficiency or 0.0) * worst.high / worst.value


def _cause(analysis: Analysis) -> str:
    """What costs most where scaling is worst, if that is beyond doubt."""
    worst = analysis.why[0] if analysis.why else None
    if worst is None or not worst.causes or not worst.causes[0].sure or not worst.excess.sure:
        return ""
    first = worst.causes[0]
    return f" Most is lost there to {first.title}: {seconds(first.amount.seconds)} of a step ({first.share:.0%})."


def _frameworks(analysis: Analysis) -> str:
    """Which frameworks are faster over all configurations, as far as that is real."""
    measure = "throughput" if any(pair.measure == "throughput" for pair in analysis.frameworks) else "step time"
    speed = [pair for pair in analysis.frameworks if pair.measure == measure and pair.factors is None]
    real = [pair for pair in speed if pair.real]
    if not speed:
        return ""
    if not real:
        return "No framework is faster than another over all configurations beyond doubt."
    most = max(real, key=lambda pair: max(pair.ratio, 1 / pair.ratio))
    ratio = max(most.ratio, 1 / most.ratio)
    slower = most.second if most.better == most.first else most.first
    does = f"does {ratio:.2f} times the samples of" if measure == "throughput" else f"is {ratio:.2f} times as fast as"
    text = f"The largest real difference of frameworks: {most.better} {does} {slower}"
    return text + (f"; {len(real)} of {len(speed)} pairs differ beyond doubt." if len(speed) > 1 else ".")


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
    refused = f" {analysis.unsupported} of {analysis.trials} trials are unsupported." if analysis.unsupported else ""
    return f"{text}{failed}{refused} {noise.advice}"

"""The findings in sentences with numbers; what differs is taken from the verdicts, never judged again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from steplab.analysis.frameworks import speed_measure
from steplab.analysis.latency_sentences import latency_sentences
from steplab.analysis.noise import Noise, spread_words
from steplab.analysis.precision import precision_sentences
from steplab.analysis.study import Analysis
from steplab.analysis.summary import Group, Ratio
from steplab.analysis.training_sentences import praised, throughput_sentence, training_sentences
from steplab.core.trial import Level
from steplab.core.units import by, ends, rate, seconds, share_span, span
from steplab_worker.phases import WORDS

NO_EFFECT = "No factor alone has an effect on the step time that the noise leaves beyond doubt"
MUCH = 0.8  # of the typical threshold: a smallest one above that is not worth a word of its own
Evidence = Literal[
    "accuracy", "latency", "configurations", "precision", "phases", "scaling", "frameworks", "effects", "noise"
]


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
        finished = analysis.trials > analysis.failed + analysis.unsupported
        told = "All measured times are zero." if finished else "No trial of this study has been measured."
        return [Sentence(told, "configurations"), advice]
    answers: list[tuple[str, Evidence]] = [
        *_asked(analysis),
        *((text, "precision") for text in precision_sentences(analysis.precision, analysis.varied)),
        (_where(analysis), "phases"),
        (_scaling(analysis), "scaling"),
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
        answers += [(_frameworks(analysis), "frameworks"), (_fastest(analysis), "configurations")]
    answers.append((_tokens(analysis), "configurations"))
    answers += [(factor.sentence, "configurations") for factor in analysis.dependent]
    answers += [(text, "configurations") for text in analysis.independence.sentences]
    return [*answers, (analysis.assumption, "configurations")]


def _label(group: Group, analysis: Analysis) -> str:
    return _levels(group.factors, analysis)


def _levels(factors: Mapping[str, Level], analysis: Analysis) -> str:
    varied = {name: factors[name] for name in analysis.varied if name in factors}
    return ", ".join(f"{name} {level}" for name, level in varied.items()) or "the only configuration"


def _fastest(analysis: Analysis) -> str:
    best, *equals = analysis.fastest
    text = f"The shortest step takes {seconds(best.t_iter.median)}{_span(best)}, with {_label(best, analysis)}."
    if best.throughput is not None:
        text = f"The highest throughput is {rate(best.throughput)} samples/s with {_label(best, analysis)}: "
        text += f"a step takes {seconds(best.t_iter.median)}{_span(best)}."
    if equals:
        text += f" {len(equals)} other configuration{'s' if len(equals) > 1 else ''} cannot be told from it."
    return text


def _tokens(analysis: Analysis) -> str:
    """Tokens of the highest throughput, and how much of the machine that takes, where samples are texts."""
    best = next(iter(praised(analysis)), None)
    used = best.utilisation if best else None
    if best is None or used is None or used.tokens_per_s is None:
        return ""
    who = f"With {_label(best, analysis)}, the workers" if analysis.varied else "The workers"
    text = f"{who} go through {rate(used.tokens_per_s.value)} tokens/s"
    if used.tokens_per_joule is not None:
        text += f", {rate(used.tokens_per_joule.value)} of them for a joule at the trials' mean power{used.estimated}"
    if used.share is not None:
        span_ = f" ({share_span(*used.share.ends)})" if used.share.ends else ""
        text += f"; the products reach {used.share.value:.1%}{span_} of this machine's roof"
    return f"{text}."


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
    several = [group for group in analysis.groups if group.speedup and group.efficiency and group.workers > 1]
    if not several:
        return ""
    best = max(several, key=lambda group: group.efficiency or 0.0)
    worst = min(several, key=lambda group: group.efficiency or 0.0)
    assert best.speedup and worst.speedup
    text = f"More workers scale with {best.efficiency:.0%} efficiency at best ({_label(best, analysis)}: "
    text += f"speed-up {best.speedup.value:.2f}{_ends(best.speedup)})"
    if worst is not best:
        text += f" and {worst.efficiency:.0%} at worst ({_label(worst, analysis)})"
        text += "" if _surely_above(best, worst) else ", which noise alone could make"
    return f"{text}.{_cause(analysis)}{_same_cores(analysis)}"


def _same_cores(analysis: Analysis) -> str:
    """The fair comparison of the several workers that do most, or how to make it."""
    if not analysis.fair:
        return ""
    most = analysis.fair[0]
    alike = {name: level for name, level in most.factors.items() if name not in ("workers", "threads")}
    varied = [name for name in analysis.varied if name in alike]
    return f" {most.told(', '.join(f'{name} {alike[name]}' for name in varied))}"


def _ends(speedup: Ratio) -> str:
    return "" if speedup.low is None or speedup.high is None else f", {ends(speedup.low, speedup.high)}"


def _surely_above(best: Group, worst: Group) -> bool:
    """Whether the intervals of two efficiencies are apart."""
    shares = [group.speedup.over(group.workers) for group in (best, worst) if group.speedup]
    low, high = shares[0].low, shares[1].high
    return low is not None and high is not None and low > high


def _cause(analysis: Analysis) -> str:
    """What costs most in the configuration that surely loses most, if that is beyond doubt."""
    worst = analysis.why[0] if analysis.why else None
    if worst is None or not worst.causes or not worst.causes[0].sure or not worst.excess.sure:
        return ""
    first = worst.causes[0]
    where = _levels(worst.factors, analysis)
    return (
        f" Most is lost with {where} to {first.title}: {seconds(first.amount.seconds)} of a step ({first.share:.0%})."
    )


def _frameworks(analysis: Analysis) -> str:
    """The frameworks in order, as far as that is real."""
    if analysis.ranking is not None:
        return analysis.ranking.sentence
    measure = speed_measure(analysis.frameworks)
    speed = [pair for pair in analysis.frameworks if pair.measure == measure and pair.factors is None]
    real = [pair for pair in speed if pair.real]
    if not real:
        return ""
    # Pairs that share too little for an order are told one by one.
    most = max(real, key=lambda pair: max(pair.ratio, 1 / pair.ratio))
    return f"The frameworks have no common order. {most.sentence}"


def _effect(analysis: Analysis) -> str:
    experiment = analysis.designed
    if not experiment.factors or experiment.error.kind == "none":
        return ""
    sure = [effect for effect in experiment.main if effect.differs]
    if sure:
        most = max(sure, key=lambda effect: max(effect.ratio, 1 / effect.ratio))
        return (
            f"The strongest single effect on the step time is {most.factor}: {most.level} instead of {most.reference} "
            f"multiplies it by {most.ratio:.3g} ({most.low:.3g} to {most.high:.3g})."
        )
    powers = [trend for trend in experiment.trends if trend.differs]
    if powers:
        steep = max(powers, key=lambda trend: abs(trend.power))
        power = f"{steep.factor}^{steep.power:.2f} ({steep.low:.2f} to {steep.high:.2f})"
        return f"The step time goes as {power}; no two of its levels alone are told apart."
    together = [interaction for interaction in experiment.interactions if interaction.differs]
    if together:
        pair = " and ".join(together[0].factors)
        return f"{NO_EFFECT}, but {pair} act together."
    if analysis.verdicts.real_factors or analysis.independence.confounded_names:
        return ""  # variants of frameworks and confounded factors have sentences of their own
    return f"{NO_EFFECT}."


def _trust(analysis: Analysis) -> str:
    noise = analysis.noise
    if noise.between is None:
        return f"How far to trust this is unknown. {noise.advice}"
    text = f"The measurements are {noise.verdict}: replicates differ by {spread_words(noise.between)}."
    failed = f" {analysis.failed} of {analysis.trials} trials failed." if analysis.failed else ""
    refused = f" {analysis.unsupported} of {analysis.trials} trials are unsupported." if analysis.unsupported else ""
    return f"{text}{threshold(noise)}{failed}{refused} {noise.advice}"


def threshold(noise: Noise) -> str:
    """From where on differences are seen: of two single configurations, of a factor, and what would halve it."""
    if not noise.detectable or not noise.detectable_typical:
        return ""
    least, typical = noise.detectable, noise.detectable_typical
    apart = by(1 + typical) if least > MUCH * typical else f"at least {by(1 + least)} (typically {by(1 + typical)})"
    text = f" Two single configurations must differ by {apart} to be told apart"
    if noise.detectable_effect:
        text += f", a factor's levels by {by(1 + noise.detectable_effect)} on average over the design"
    more = f"; {noise.halving} replicates instead of {noise.replicates} would halve that" if noise.halving else ""
    return f"{text}{more}."

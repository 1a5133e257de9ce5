"""No two sentences of one answer contradict each other: the words of 220 simulated studies are read and compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.effects.sentences import REAL, describe, effect_rows
from steplab.analysis.sentences import sentences
from steplab.analysis.study import Analysis, analyse
from steplab.core.units import seconds

STUDIES = 220
FACTORS = ["framework", "batch_size", "workers", "threads", "optimizer", "hidden"]
NUMBER = r"[0-9.]+(?:e[+-]?\d+)?"
INTERVAL = re.compile(rf"({NUMBER}) \(({NUMBER}) to ({NUMBER})\)")


@dataclass(frozen=True)
class Law:
    """What a simulated study is made of; `null` where no factor does anything."""

    seed: int
    null: bool
    normal: bool
    noise: float


def simulated(seed: int) -> tuple[Law, pd.DataFrame]:
    """A study: factors, effects, noise and what is missing are drawn."""
    rng = np.random.default_rng(seed)
    law = Law(seed, bool(rng.random() < 0.3), bool(rng.random() < 0.7), float(10 ** rng.uniform(-4, -0.3)))
    slope = bool(rng.random() < 0.15)
    levels: dict[str, list[Any]] = {
        "framework": ["jax", "mxnet", "tensorflow", "torch"][: int(rng.integers(1, 5))],
        "batch_size": [16, 64, 256][: int(rng.integers(1, 4))],
        "workers": [[1], [1, 2], [1, 2, 4]][int(rng.integers(3))],
        "threads": [[1], [1, 2]][int(rng.random() < 0.4)],
        "optimizer": [["sgd"], ["adam", "sgd"]][int(rng.random() < 0.3)],
        "hidden": list(range(10, 150, 10)) if slope else [64],
    }
    cells = list(product(*levels.values()))
    rng.shuffle(cells)
    cells = cells[: max(2, int(len(cells) * (rng.uniform(0.1, 0.3) if slope else 1.0)))]
    kept = [cell for cell in cells if rng.random() > (0.15 if rng.random() < 0.3 else 0.0)] or cells
    strength = 0.0 if law.null else float(rng.choice([0.02, 0.1, 0.5]))
    effects = {(name, one): rng.normal(0, strength) for name in levels for one in levels[name]}
    spread = {str(cell): law.noise * (np.exp(rng.normal(0, 1)) if not law.normal else 1.0) for cell in kept}
    replicates = int(rng.integers(1, 6))
    rows = [_row(dict(zip(levels, map(_plain, cell), strict=True)), r, law, effects, spread[str(cell)], rng)
            for r in range(replicates) for cell in kept]  # fmt: skip
    frame = pd.DataFrame(rows)
    frame["trial"], frame["started"] = frame.index.map("{:04d}".format), rng.permutation(len(frame)).astype(float)
    if rng.random() < 0.2:
        frame.loc[rng.random(len(frame)) < 0.1, "status"] = "crashed"
    return law, frame


def _plain(level: Any) -> Any:
    return level if isinstance(level, str) else int(level)


def _row(
    cell: dict[str, Any], replicate: int, law: Law, effects: dict[Any, float], spread: float, rng: np.random.Generator
) -> dict[str, Any]:
    """A trial: a step takes 10 ms, or more with a larger batch; nothing does anything where the law is null."""
    log = sum(effects[name, level] for name, level in cell.items())
    log += 0.0 if law.null else 0.6 * np.log(cell["batch_size"] / 16)
    noise = rng.normal(0, spread) if law.normal or rng.random() > 0.1 else abs(rng.normal(0, 8 * spread))
    t = 0.01 * float(np.exp(log + noise))
    parts = {"t_io": 0.05, "t_f": 0.25, "t_b": 0.45, "t_wait": 0.05, "t_move": 0.1, "t_u": 0.05, "t_other": 0.05}
    lost = {name: share * t * float(np.exp(rng.normal(0, spread))) for name, share in parts.items()}
    lost |= {} if cell["workers"] > 1 else {"t_wait": 0.0, "t_move": 0.0}
    return cell | lost | {
        "replicate": replicate, "status": "ok", "reason": "", "t_iter": t, "t_iter_phased": t, "spread": spread,
        "t_iter_low": 0.99 * t, "t_iter_high": 1.01 * t, "throughput": cell["batch_size"] * cell["workers"] / t,
        "drift": 0.0, "seconds": 1.0, "lif": 1.02, "cpus": 4, "ranks_per_host": cell["workers"], "t_h2d": 0.0,
        "t_md": 0.0, "t_c": lost["t_wait"] + lost["t_move"],
    }  # fmt: skip


def contradictions(found: Analysis) -> Iterator[str]:
    """What one sentence, row or verdict says and another denies."""
    answer = [str(one) for one in sentences(found)]
    text = " ".join([*answer, *describe(found.designed)])
    for look in (_no_effect, _effects, _frameworks, _ranking, _fastest, _thresholds, _losses, _gains, _same_cores):
        yield from look(text, found)
    for wild in re.findall(r"(?<![\d.])\d{4,}(?:\.\d+)? ?%(?! efficiency)|samples/s 0\b|\bnan\b|\binf\b", text):
        yield f"wild number {wild}"


def _no_effect(text: str, found: Analysis) -> Iterator[str]:
    real = [row[0] for row in effect_rows(found.designed) if row[-1] == REAL]
    if "No factor alone has an effect" in text:
        yield from (f"no factor, but {row} is real" for row in real if " with " not in row)
        yield from ("no factor, but a power" for _ in re.findall("The step time goes as", text))
        if re.search(r"(?:^|\. )By throughput [^.]*? before", text) and "nothing tells" not in text:
            yield "no factor, but frameworks are ranked"
    if "No factor and no pair of factors" in text:
        yield from (f"no pair, but {row} is real" for row in real)
        if "act together" in text or "strongest single effect" in text:
            yield "no pair, but a sentence has one"
    strongest = r"strongest single effect on the step time is (\w+): (\S+) instead of (\S+)"
    for factor, level, other in re.findall(strongest, text):
        if f"{factor}: {level} for {other}" not in real:
            yield f"{factor} is strongest, but not real"


def _effects(text: str, found: Analysis) -> Iterator[str]:
    for label, _, ends, verdict in effect_rows(found.designed):
        low, high = map(float, ends.split("–"))
        if (low > 1.001 or high < 0.999) != (verdict == REAL) and not low <= 1.001 <= high + 0.002:
            yield f"{label}: {ends} is called {verdict or 'nothing'}"


def _frameworks(text: str, found: Analysis) -> Iterator[str]:
    effects = {row[0]: row[-1] == REAL for row in effect_rows(found.designed)}
    for pair in found.frameworks:
        real = ": a real difference" in pair.sentence
        effect = effects.get(f"framework: {pair.second} for {pair.first}", real)
        if pair.factors is None and pair.measure == "throughput" and effect != real:
            yield f"{pair.sentence} Its effect is {'real' if effect else 'not'}"
        interval = INTERVAL.search(pair.sentence)
        if interval is None:
            if real:
                yield f"real without an interval: {pair.sentence}"
            continue
        _, low, high = map(float, interval.groups())
        if real != (low > 1 or high < 1) and not (low <= 1.01 and high >= 0.99):
            yield pair.sentence


def _ranking(text: str, found: Analysis) -> Iterator[str]:
    overall = [one for one in found.frameworks if one.measure == "throughput" and one.factors is None]
    real = {(one.first, one.second) for one in overall if ": a real difference" in one.sentence}
    said = re.search(
        r"By throughput (?:over|in)[^:,]*(: (?P<order>.*?)|, (?P<equal>.*?) cannot be told apart.*?)\.(?: |$)", text
    )
    if said and said["equal"]:
        yield from (f"cannot be told apart, but {pair}" for pair in real)
    elif said and said["order"]:
        order = [
            re.split(r" \(| before", part)[0].strip() for part in re.split(r" before |, ", said["order"].split(";")[0])
        ]
        for first, second in real:
            better = next(
                one.better for one in found.frameworks if (one.first, one.second) == (first, second) and one.real
            )
            if order.index(better) > min(order.index(first), order.index(second)):
                yield f"{better} is better, but stands behind: {said[0]}"
        for group in re.findall(r"; ([^;]*?) cannot be told apart", said[0]):
            names = set(re.split(r", | and ", group))
            yield from (f"{pair} differ and cannot be told apart" for pair in real if set(pair) <= names)


def _fastest(text: str, found: Analysis) -> Iterator[str]:
    if not found.groups:
        return
    said = re.search(r"(\d+) other configurations? cannot be told from it", text)
    equal = int(said[1]) if said else 0
    best = found.groups[0]
    rest = {k: v for k, v in best.factors.items() if k != "framework"}
    told = {
        (one.second if one.first == best.factors["framework"] else one.first)
        for one in found.frameworks
        if one.measure == "throughput" and one.factors == rest and ": a real difference" in one.sentence
        and best.factors["framework"] in (one.first, one.second)
    }  # fmt: skip
    if best.workers > 1 and best.speedup and best.speedup.low is not None and best.speedup.low > 1:
        told.add("one worker")
    if equal > len(found.groups) - 1 - len(told):
        yield f"{equal} cannot be told from {best.factors}, but {told} can"


def _factor(words: str) -> float:
    """A threshold as a ratio, a little below what is printed, which is rounded."""
    if "factor" in words:
        return float(words.split()[3]) * 0.99
    return 1 + 0.95 * float(words.split()[0]) / 100


def _thresholds(text: str, found: Analysis) -> Iterator[str]:
    amount = rf"(a factor of {NUMBER}|{NUMBER} %)"
    single = re.search(rf"Two single configurations must differ by (?:at least )?{amount}", text)
    average = re.search(rf"a factor's levels by {amount} on average", text)
    for one in found.frameworks:
        apart = one.measure == "throughput" and one.configurations == 1 and ": a real difference" in one.sentence
        if single and apart and max(one.ratio, 1 / one.ratio) < _factor(single[1]):
            yield f"{single[0]}, but {one.sentence}"
    for effect in found.effects:
        if average and effect.differs and max(effect.ratio, 1 / effect.ratio) < _factor(average[1]):
            yield f"{average[0]}, but {effect}"


def _losses(text: str, found: Analysis) -> Iterator[str]:
    rows = {str(group.factors): group for group in found.groups}
    for one in found.why:
        group = rows[str(one.factors)]
        if f"a step takes {seconds(group.t_iter.median)}" not in one.answer:
            yield f"{one.answer} against {seconds(group.t_iter.median)}"
        if f"efficiency {group.efficiency:.0%}" not in one.answer:
            yield f"{one.answer} against {group.efficiency:.0%}"
        doubt = "within noise" in one.answer or "no loss is seen" in one.answer
        if doubt and (one.helps or "cause" in one.answer):
            yield f"explained: {one.answer}"
        if re.search(r"more than ideal \(efficiency 1\d\d+%", one.answer) and "100%" not in one.answer:
            yield f"a loss at {one.answer}"
    if found.designed.factors == ("workers",):
        sure = {one.factors["workers"]: "more than ideal" in one.answer and one.excess.sure for one in found.why}
        for effect in found.effects:
            if sure.get(effect.level, effect.differs) != (effect.differs and effect.ratio > 1):
                yield f"{effect} against the losses {sure}"


def _gains(text: str, found: Analysis) -> Iterator[str]:
    for one in found.why:
        for way in one.helps:
            if way.low is None or way.high is None or not 1 < way.low <= way.gain <= way.high:
                yield f"{way.action}: {way.gain} ({way.low} to {way.high})"


def _same_cores(text: str, found: Analysis) -> Iterator[str]:
    for one in found.fair:
        said = INTERVAL.search(one.sentence.replace(" times (", " ("))
        if said is None:
            continue
        _, low, high = map(float, said.groups())
        pays, better = "more workers pay" in one.sentence, "one worker uses the cores better" in one.sentence
        if (pays and low < 1) or (better and high > 1) or (pays and better):
            yield one.sentence


@pytest.fixture(scope="module")
def answers() -> list[tuple[Law, Analysis]]:
    """Every simulated study, analysed once."""
    return [(law, analyse(trials, FACTORS)) for law, trials in map(simulated, range(STUDIES))]


def test_no_two_sentences_of_an_answer_contradict(answers: list[tuple[Law, Analysis]]) -> None:
    found = [f"study {law.seed}: {words}" for law, analysis in answers for words in contradictions(analysis)]
    assert not found, "\n".join(found[:20])


def test_the_studies_ask_everything(answers: list[tuple[Law, Analysis]]) -> None:
    texts = [" ".join(map(str, sentences(analysis))) for _, analysis in answers]
    for words in ("No factor alone", "strongest single effect", "cannot be told apart", " before ", "must differ by",
                  "cannot be told from it", "on the same", "was not measured"):  # fmt: skip
        assert sum(words.lower() in text.lower() for text in texts) >= 5, words
    why = [one for _, analysis in answers for one in analysis.why]
    assert sum(bool(one.helps) for one in why) >= 20
    assert sum("within noise" in one.answer for one in why) >= 20


def test_nothing_is_claimed_too_often_where_there_is_nothing(answers: list[tuple[Law, Analysis]]) -> None:
    null = [analysis for law, analysis in answers if law.null and law.normal and analysis.noise.between is not None]
    assert len(null) >= 25
    effects = [any(effect.differs for effect in one.effects if effect.factor != "framework") for one in null]
    frameworks = [any(pair.real for pair in one.frameworks) for one in null]
    assert np.mean(effects) <= 0.15 and np.mean(frameworks) <= 0.15


def _first_effect(found: Analysis, **change: Any) -> Analysis:
    experiment = found.designed
    main = [replace(experiment.main[0], **change), *experiment.main[1:]]
    return replace(found, verdicts=replace(found.verdicts, designed=replace(experiment, main=main)))


def _first_pair(found: Analysis) -> Analysis:
    pairs = [replace(found.frameworks[0], real=True, better=found.frameworks[0].first,
                     sentence=found.frameworks[0].sentence.split(":")[0] + ": a real difference."),
             *found.frameworks[1:]]  # fmt: skip
    return replace(found, verdicts=replace(found.verdicts, frameworks=pairs))


MUTATIONS: dict[str, Callable[[Analysis], Analysis]] = {
    "an effect is called real": lambda found: _first_effect(found, differs=True),
    "a pair of frameworks is called real": _first_pair,
    "the threshold of effects is raised": lambda found: replace(
        _first_effect(found, differs=True, ratio=1.5, low=1.4, high=1.6),
        noise=replace(found.noise, detectable_effect=0.79),
    ),
    "a loss within noise is explained": lambda found: replace(
        found, why=[replace(one, answer=one.answer + " The main cause is noise.") for one in found.why]
    ),
    "another efficiency": lambda found: replace(
        found, why=[replace(one, answer=re.sub(r"efficiency \d+%", "efficiency 7%", one.answer)) for one in found.why]
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_contradiction_is_seen(name: str, answers: list[tuple[Law, Analysis]]) -> None:
    quiet = next(
        found for _, found in answers
        if found.effects and not any(effect.differs for effect in found.effects) and found.frameworks
        and found.frameworks[0].low is not None and found.why and not any(one.excess.sure for one in found.why)
        and found.noise.detectable_effect and not any(pair.real for pair in found.frameworks)
    )  # fmt: skip
    assert not list(contradictions(quiet))
    assert list(contradictions(MUTATIONS[name](quiet))), name

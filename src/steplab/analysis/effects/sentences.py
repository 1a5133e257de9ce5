"""The analysis of a designed experiment in short sentences and as a table for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from steplab.analysis.effects.findings import NEVER, AnovaRow, Designed, Effect, Interaction, MissingCell
from steplab.core.trial import UNSUPPORTED, Level

TABLE_COLUMNS = ("term", "df", "share", "F", "verdict")
SHOWN = 3
CONFOUNDED = "confounded"
REAL = "real"  # the word for a difference whose interval leaves 1 out


def describe(experiment: Designed) -> list[str]:
    """What the experiment showed, on which scale, judged by what, and what is wrong with it."""
    if not experiment.factors:
        return [f"Effects: {experiment.error.why}.", *_missing(experiment)]
    aspects = (_design, _terms, _strongest, _together, _trends, _missing, _untold)
    sentences = [sentence for aspect in aspects for sentence in aspect(experiment)]
    return [*sentences, *experiment.notes, *_looks(experiment)]


def table_rows(experiment: Designed) -> list[tuple[str, ...]]:
    """The analysis of variance as cells of text under `TABLE_COLUMNS`; at most 80 columns wide."""
    return [
        (_short(row.term), str(row.df), f"{row.share:.1%}", _number(row.f), verdict(row, experiment))
        for row in experiment.anova
    ]


def verdict(row: AnovaRow, experiment: Designed) -> str:
    """Whether a term is real; of a confounded factor nobody can tell."""
    return CONFOUNDED if set(row.factors) & set(experiment.confounded) else REAL if row.differs else ""


def effect_rows(experiment: Designed) -> list[tuple[str, ...]]:
    """Every main effect, and the interactions that are sure, as cells: what, ratio, interval, whether it differs."""
    rows: list[tuple[str, Effect | Interaction]] = []
    rows += [(f"{effect.factor}: {effect.level} for {effect.reference}", effect) for effect in experiment.main]
    rows += [(_levels(effect.factors, effect.levels), effect) for effect in experiment.interactions if effect.differs]
    return [
        (
            _short(label, 46),
            f"{effect.ratio:.3g}",
            f"{effect.low:.3g}–{effect.high:.3g}",
            REAL if effect.differs else "",
        )
        for label, effect in rows
    ]


def _design(experiment: Designed) -> list[str]:
    shape = f"{' × '.join(map(str, experiment.levels))} design" if experiment.levels else "design"
    blocks = f", {experiment.blocks} blocks" if experiment.blocks > 1 else ""
    scale = "ratios (log scale)" if experiment.scale.name == "log" else "seconds"
    noise = ""
    if experiment.error.spread is not None:
        spread = experiment.error.spread
        size = f"{spread:.1%}" if experiment.scale.name == "log" else f"{spread:.3g} s"
        noise = f" ({size}, {_freedom(experiment.error.df)})"
    return [
        f"Effects: {experiment.trials} trials of a {shape} ({', '.join(experiment.factors)}){blocks}.",
        f"They are analysed as {scale}: {experiment.scale.why}.",
        f"Noise: {experiment.error.why}{noise}.",
    ]


def _freedom(df: int) -> str:
    return f"{df} degree{'s' if df != 1 else ''} of freedom"


def _terms(experiment: Designed) -> list[str]:
    """Which terms matter, the largest share first."""
    if experiment.error.kind == "none":
        return []  # the sentence on noise says why nothing is claimed
    sure = sorted((row for row in experiment.anova if row.differs), key=lambda row: -row.share)
    if not sure and experiment.confounded:
        *names, last = experiment.confounded
        return [
            f"What {', '.join(names)} and {last} do cannot be told apart; no other factor has an effect beyond doubt."
        ]
    if not sure:
        return ["No factor and no pair of factors has an effect that the noise leaves beyond doubt."]
    parts = [f"{row.term} {row.share:.0%}" if row.share >= 0.005 else f"{row.term} below 1 %" for row in sure[:5]]
    more = f", and {len(sure) - 5} more terms" if len(sure) > 5 else ""
    return [f"Of the variation, these explain: {', '.join(parts)}{more}."]


def _size(effect: Effect | Interaction) -> float:
    return max(effect.ratio, 1 / effect.ratio) if effect.ratio > 0 else 0.0


def _strongest(experiment: Designed) -> list[str]:
    """The largest main effect, with a warning if its factor acts together with another."""
    sure = [effect for effect in experiment.main if effect.differs]
    if not sure:
        return []
    most = max(sure, key=_size)
    partners = sorted({name for effect in experiment.interactions if effect.differs and most.factor in effect.factors
                       for name in effect.factors} - {most.factor})  # fmt: skip
    text = f"The largest effect is {most.factor}: {most.level} instead of {most.reference} multiplies the step time by "
    text += f"{most.ratio:.3g} ({most.low:.3g} to {most.high:.3g}) on average"
    return [text + (f", but how much depends on {' and '.join(partners)}." if partners else ".")]


def _together(experiment: Designed) -> list[str]:
    """The interactions that are sure, the strongest of each pair of factors."""
    best: dict[tuple[str, str], Interaction] = {}
    for interaction in (interaction for interaction in experiment.interactions if interaction.differs):
        pair = interaction.factors
        best[pair] = max(best.get(pair, interaction), interaction, key=_size)
    alone = "multiplied" if experiment.scale.name == "log" else "added"
    return [
        f"{' and '.join(pair)} act together: {_levels(pair, strongest.levels)} takes {strongest.ratio:.3g} times "
        f"({strongest.low:.3g} to {strongest.high:.3g}) what the two effects {alone} would give."
        for pair, strongest in sorted(best.items(), key=lambda item: -_size(item[1]))[:SHOWN]
    ]


def _levels(names: Sequence[str], levels: Sequence[Level]) -> str:
    return " with ".join(f"{name} {level}" for name, level in zip(names, levels, strict=True))


def _trends(experiment: Designed) -> list[str]:
    """The power laws of the numeric factors that matter."""
    return [
        f"The step time goes as {trend.factor}^{trend.power:.2f} ({trend.low:.2f} to {trend.high:.2f})"
        + ("." if trend.straight else ", but bends: a power law is not all there is to it.")
        for trend in experiment.trends
        if trend.differs
    ]


def _missing(experiment: Designed) -> list[str]:
    """Failed trials and empty cells, by name; a level that is missing everywhere is said once."""
    sentences = []
    if experiment.broken:
        shown = ", ".join(experiment.broken[:SHOWN])
        more = f" and {len(experiment.broken) - SHOWN} more" if len(experiment.broken) > SHOWN else ""
        sentences.append(f"Left out, because they did not end well: {shown}{more}.")
    if experiment.missing:
        cells = [", ".join(f"{name} {level}" for name, level in cell.levels) for cell in experiment.missing]
        whole = _whole_levels(experiment.missing, experiment)
        shown = "; ".join(whole or cells[:SHOWN])
        more = f"; and {len(cells) - SHOWN} more" if not whole and len(cells) > SHOWN else ""
        sentences.append(f"{len(cells)} {_lacking(experiment.missing)}: {shown}{more}.")
    return sentences


def _lacking(missing: Sequence[MissingCell]) -> str:
    """That combinations were not measured, or how they ended."""
    reasons, several = {cell.why for cell in missing}, len(missing) > 1
    if reasons == {NEVER}:
        return f"combination{'s were' if several else ' was'} not measured"
    refused = " (unsupported)" if reasons == {UNSUPPORTED} else ""
    return f"combination{'s have' if several else ' has'} no good trial{refused}"


def _whole_levels(missing: Sequence[MissingCell], experiment: Designed) -> list[str]:
    """Levels that all empty cells share: `strategy ps-async (all)`."""
    counts = Counter(pair for cell in missing for pair in cell.levels)
    analysed = {(mean.factors[0], mean.levels[0]) for mean in experiment.means}
    return [
        f"{name} {level} (everywhere)"
        for (name, level), count in counts.items()
        if count == len(missing) and (name, level) not in analysed
    ]


def _untold(experiment: Designed) -> list[str]:
    shown = [f"{term.term} cannot be estimated: {term.why}." for term in experiment.inestimable[:SHOWN]]
    if len(experiment.inestimable) > SHOWN:
        shown.append(f"{len(experiment.inestimable) - SHOWN} further terms cannot be estimated either.")
    return shown


def _looks(experiment: Designed) -> list[str]:
    if not experiment.checks:
        return []
    alarms = [check.sentence for check in experiment.checks if not check.fine]
    # Where each configuration counts with its own noise, levels may well be alike, but that is not the whole of it.
    silent = {"equal variance"} if experiment.unequal else set()
    names = ", ".join(check.name for check in experiment.checks if check.name not in silent)
    return alarms or ([f"Checked without alarm: {names} of the residuals."] if names else [])


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _number(value: float | None) -> str:
    return "" if value is None else "∞" if value == float("inf") else f"{value:.3g}"

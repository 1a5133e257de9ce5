"""The analysis of a designed experiment in short sentences and as a table for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from steplab.analysis.effects.findings import AnovaRow, Designed, Effect, Interaction, MissingCell
from steplab.core.trial import UNSUPPORTED, Level

TABLE_COLUMNS = ("term", "df", "share", "F", "p (Holm)")
SURE = 0.05
SHOWN = 3


def describe(found: Designed) -> list[str]:
    """What the experiment showed, on which scale, judged by what, and what is wrong with it."""
    if not found.factors:
        return [f"Effects: {found.error.why}.", *_missing(found)]
    said = [*_design(found), *_terms(found), *_strongest(found), *_together(found), *_trends(found)]
    return [*said, *_missing(found), *_untold(found), *found.notes, *_looks(found)]


def table_rows(found: Designed) -> list[tuple[str, ...]]:
    """The analysis of variance as cells of text under `TABLE_COLUMNS`; at most 80 columns wide."""
    return [
        (_short(row.term), str(row.df), f"{row.share:.1%}", _number(row.f), _probability(row.holm))
        for row in found.anova
    ]


def effect_rows(found: Designed) -> list[tuple[str, ...]]:
    """Every main effect, and the interactions that are sure, as cells: what, ratio, interval, whether it differs."""
    rows: list[tuple[str, Effect | Interaction]] = []
    rows += [(f"{one.factor}: {one.level} for {one.reference}", one) for one in found.main]
    rows += [(_levels(one.factors, one.levels), one) for one in found.interactions if one.differs]
    return [
        (_short(label, 46), f"{one.ratio:.3g}", f"{one.low:.3g}–{one.high:.3g}", "yes" if one.differs else "")
        for label, one in rows
    ]


def _design(found: Designed) -> list[str]:
    shape = f"{' × '.join(map(str, found.levels))} design" if found.levels else "design"
    blocks = f", {found.blocks} blocks" if found.blocks > 1 else ""
    scale = "ratios (log scale)" if found.scale.name == "log" else "seconds"
    noise = ""
    if found.error.spread is not None:
        size = f"{found.error.spread:.1%}" if found.scale.name == "log" else f"{found.error.spread:.3g} s"
        noise = f" ({size}, {_freedom(found.error.df)})"
    return [
        f"Effects: {found.trials} trials of a {shape} ({', '.join(found.factors)}){blocks}.",
        f"They are analysed as {scale}: {found.scale.why}.",
        f"Noise: {found.error.why}{noise}.",
    ]


def _freedom(df: int) -> str:
    return f"{df} degree{'s' if df != 1 else ''} of freedom"


def _terms(found: Designed) -> list[str]:
    """Which terms matter, the largest share first."""
    sure = sorted(_sure(found.anova), key=lambda row: -row.share)
    if not sure:
        return ["No factor and no pair of factors has an effect that the noise leaves beyond doubt."]
    parts = [f"{row.term} {row.share:.0%}" if row.share >= 0.005 else f"{row.term} below 1 %" for row in sure[:5]]
    more = f", and {len(sure) - 5} more terms" if len(sure) > 5 else ""
    return [f"Of the variation, these explain: {', '.join(parts)}{more}."]


def _sure(rows: Iterable[AnovaRow]) -> list[AnovaRow]:
    return [row for row in rows if row.holm is not None and row.holm < SURE]


def _size(one: Effect | Interaction) -> float:
    return max(one.ratio, 1 / one.ratio) if one.ratio > 0 else 0.0


def _strongest(found: Designed) -> list[str]:
    """The largest main effect, with a warning if its factor acts together with another."""
    sure = [one for one in found.main if one.differs]
    if not sure:
        return []
    most = max(sure, key=_size)
    partners = sorted({name for one in found.interactions if one.differs and most.factor in one.factors
                       for name in one.factors} - {most.factor})  # fmt: skip
    text = f"The largest effect is {most.factor}: {most.level} instead of {most.reference} multiplies the step time by "
    text += f"{most.ratio:.3g} ({most.low:.3g} to {most.high:.3g}) on average"
    return [text + (f", but how much depends on {' and '.join(partners)}." if partners else ".")]


def _together(found: Designed) -> list[str]:
    """The interactions that are sure, the strongest of each pair of factors."""
    best: dict[tuple[str, str], Interaction] = {}
    for one in found.interactions:
        if one.differs and (one.factors not in best or _size(one) > _size(best[one.factors])):
            best[one.factors] = one
    alone = "multiplied" if found.scale.name == "log" else "added"
    return [
        f"{' and '.join(one.factors)} act together: {_levels(one.factors, one.levels)} takes {one.ratio:.3g} times "
        f"({one.low:.3g} to {one.high:.3g}) what the two effects {alone} would give."
        for one in sorted(best.values(), key=_size, reverse=True)[:SHOWN]
    ]


def _levels(names: Sequence[str], levels: Sequence[Level]) -> str:
    return " with ".join(f"{name} {level}" for name, level in zip(names, levels, strict=True))


def _trends(found: Designed) -> list[str]:
    """The power laws of the numeric factors that matter."""
    sure = {row.term for row in _sure(found.anova)}
    return [
        f"The step time goes as {one.factor}^{one.power:.2f} ({one.low:.2f} to {one.high:.2f})"
        + ("." if one.straight else ", but bends: a power law is not all there is to it.")
        for one in found.trends
        if one.factor in sure
    ]


def _missing(found: Designed) -> list[str]:
    """Failed trials and empty cells, by name; a level that is missing everywhere is said once."""
    said = []
    if found.broken:
        shown = ", ".join(found.broken[:SHOWN])
        more = f" and {len(found.broken) - SHOWN} more" if len(found.broken) > SHOWN else ""
        said.append(f"Left out, because they did not end well: {shown}{more}.")
    if found.missing:
        cells = [", ".join(f"{name} {level}" for name, level in one.levels) for one in found.missing]
        whole = _whole_levels(found.missing, found)
        shown = "; ".join(whole or cells[:SHOWN])
        more = f"; and {len(cells) - SHOWN} more" if not whole and len(cells) > SHOWN else ""
        noun = "combination has" if len(cells) == 1 else "combinations have"
        refused = " (unsupported)" if {one.why for one in found.missing} == {UNSUPPORTED} else ""
        said.append(f"{len(cells)} {noun} no good trial{refused}: {shown}{more}.")
    return said


def _whole_levels(missing: Sequence[MissingCell], found: Designed) -> list[str]:
    """Levels that all empty cells share: `strategy ps-async (all)`."""
    counts = Counter(pair for cell in missing for pair in cell.levels)
    analysed = {(mean.factors[0], mean.levels[0]) for mean in found.means}
    return [
        f"{name} {level} (everywhere)"
        for (name, level), count in counts.items()
        if count == len(missing) and (name, level) not in analysed
    ]


def _untold(found: Designed) -> list[str]:
    shown = [f"{one.term} cannot be estimated: {one.why}." for one in found.inestimable[:SHOWN]]
    if len(found.inestimable) > SHOWN:
        shown.append(f"{len(found.inestimable) - SHOWN} further terms cannot be estimated either.")
    return shown


def _looks(found: Designed) -> list[str]:
    if not found.checks:
        return []
    alarms = [check.sentence for check in found.checks if not check.fine]
    return alarms or [f"Checked without alarm: {', '.join(check.name for check in found.checks)} of the residuals."]


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _number(value: float | None) -> str:
    return "" if value is None else "∞" if value == float("inf") else f"{value:.3g}"


def _probability(value: float | None) -> str:
    return "" if value is None else "<0.0001" if value < 1e-4 else f"{value:.4f}"

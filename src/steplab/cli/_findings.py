"""What `steplab analyze` shows: each section a table or a few lines that fit a terminal of 80 columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steplab.api.results.findings import (
    TABLE_COLUMNS,
    Analysis,
    Estimate,
    Group,
    Scaling,
    describe,
    label,
    not_compared,
    sentences,
    table_rows,
)
from steplab.cli._output import console, filled_table, table
from steplab.cli._question_tables import accuracy_table, latency_table, precision_table
from steplab.cli._why_view import show_why
from steplab.core.trial import Level
from steplab.core.units import by, count, rate, ratio_span, seconds, share_span, span

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

BARS = "▁▂▃▄▅▆▇█"
WORTH_SHOWING = 1.005  # an imbalance: below, the column says 1.00 in every row
FEWEST = 3  # rows of a table, however long they are
NO_ROOF = (
    "No roof is known: `steplab roofline` measures those of this machine's CPUs once, for float32 and bfloat16 and for "
    "trials on this host alone."
)
WORKERS_OF_A_LAW = 3  # numbers of workers: a line through two points says nothing of a third


@dataclass(frozen=True)
class View:
    """What is shown: the findings, how many rows of a table at most (None: all), and how many lines of one."""

    analysis: Analysis
    most: int | None
    lines: int | None = None

    def shown(self, rows: Sequence[Any]) -> Sequence[Any]:
        """The first rows of a table."""
        return rows[: self.most]

    def rest(self, rows: Sequence[Any]) -> None:
        """Say how many rows were left out."""
        if self.most is not None and len(rows) > self.most:
            console().print(f"… and {len(rows) - self.most} more (--all shows them)")

    def fitting(self, tabulate: Callable[[Sequence[Any]], Table], rows: Sequence[Any]) -> None:
        """Print a table of as many rows as there are lines for, and say how many were left out."""
        most = len(self.shown(rows))
        while self.lines is not None and most > FEWEST and height(tabulate(rows[:most])) > self.lines:
            most -= 1
        console().print(tabulate(rows[:most]))
        View(self.analysis, most).rest(rows)


def height(shown: RenderableType) -> int:
    """How many lines something takes on the screen."""
    screen = console()
    return len(screen.render_lines(shown, screen.options.update(height=None), pad=False))


def spark(values: Sequence[float], top: float) -> str:
    """Values as bars, a full one at the top.

    >>> spark([1.0, 1.9, 3.0], 4.0)
    '▂▄▆'
    """
    return "".join(BARS[max(0, min(len(BARS) - 1, int(value / top * len(BARS) + 0.5) - 1))] for value in values)


def answer(view: View) -> None:
    """The findings in sentences."""
    for sentence in sentences(view.analysis):
        console().print(str(sentence), markup=False)


def accuracy(view: View) -> None:
    """Who reached the target accuracy, and when."""
    accuracy_table(view.analysis, view.most)


def latency(view: View) -> None:
    """How long inferences take, and their tails."""
    latency_table(view.analysis, view.most)


def precision(view: View) -> None:
    """Steps in another precision against float32, with what the machine's products could gain."""
    precision_table(view.analysis, view.most)


def configurations(view: View) -> None:
    """Every configuration: time, throughput, speed-up, imbalance."""
    analysis = view.analysis
    scaled = any(group.speedup and group.workers > 1 for group in analysis.groups)
    title = "configurations (S: speed-up against one worker)" if scaled else "configurations"

    def tabulate(groups: Sequence[Group]) -> Table:
        columns = [_heading(analysis.varied), "t_iter", "95 % interval", "samples/s", "S", "eff.", "LIF"]
        rows = [_cells(group, analysis, scaled) for group in groups]
        if not any(group.lif and group.lif >= WORTH_SHOWING for group in groups):
            rows = [[*row[:-1], ""] for row in rows]
        return filled_table(columns, rows, title=title)

    view.fitting(tabulate, analysis.groups)


def _cells(group: Group, analysis: Analysis, scaled: bool) -> list[str]:
    return [
        _label(group.factors, analysis.varied),
        seconds(group.t_iter.median),
        span(*group.t_iter.ends) if group.t_iter.ends else "",
        "" if group.throughput is None else rate(group.throughput),
        f"{group.speedup.value:.2f}" if group.speedup and scaled else "",
        f"{group.efficiency:.0%}" if group.efficiency and scaled else "",
        f"{group.lif:.2f}" if group.lif else "",
    ]


def phases(view: View) -> None:
    """Where a step's time goes, in shares."""
    analysis = view.analysis
    groups = [group for group in analysis.groups if group.phases]
    names = [name for name in (groups[0].phases if groups else ()) if any(g.phases.get(name) for g in groups)]
    if not names:
        return
    rows = [[_label(group.factors, analysis.varied), *_shares(group, names)] for group in view.shown(groups)]
    console().print(table([_heading(analysis.varied), *names], rows, title="where a step's time goes (phased mode)"))
    view.rest(groups)
    apart = sorted((g for g in groups if g.phased_apart), key=lambda group: -abs(group.observer_cost or 0.0))
    for group in apart[:3]:
        text = f"the shares are of the phased step, which is {group.phased_apart}."
        console().print(f"{label(group.factors, analysis.varied)}: {text}", markup=False)
    for part in analysis.unexplained[:3]:
        console().print(f"{label(part.factors, analysis.varied)}: {part.sentence}", markup=False)


def _shares(group: Group, names: Sequence[str]) -> list[str]:
    total = sum(group.phases.values()) or 1.0
    return [f"{group.phases.get(name, 0.0) / total:.0%}" for name in names]


def utilisation(view: View) -> None:
    """FLOP/s of products, their share of the machine's roof, tokens per second and per joule."""
    analysis = view.analysis
    groups = [group for group in analysis.groups if group.utilisation]
    rows = [[_label(group.factors, analysis.varied), *_used(group)] for group in view.shown(groups)]
    columns = [_heading(analysis.varied), "tokens/s", "tokens/J", "products", "roof", "share", "95 %"]
    console().print(filled_table(columns, rows, title="utilisation (share: FLOP/s of products, of the roof)"))
    view.rest(groups)
    computed = [group.utilisation for group in groups if group.utilisation and group.utilisation.flops_per_s]
    if computed and all(used.share is None for used in computed):
        console().print(NO_ROOF, markup=False)


def _used(group: Group) -> list[str]:
    used = group.utilisation
    assert used is not None
    return [
        "" if used.tokens_per_s is None else rate(used.tokens_per_s.value),
        "" if used.tokens_per_joule is None else f"{rate(used.tokens_per_joule.value)}{used.estimated}",
        "" if used.flops_per_s is None else f"{count(used.flops_per_s.value)}FLOP/s",
        "" if used.roof_flops_per_s is None else f"{count(used.roof_flops_per_s)}FLOP/s",
        "" if used.share is None else f"{used.share.value:.1%}",
        "" if used.share is None or used.share.ends is None else share_span(*used.share.ends),
    ]


def layers(view: View) -> None:
    """The longest layers of the fastest configuration that has them, in the network's order."""
    profile = view.analysis.layers
    if profile is None:
        return
    shown, whole = profile.longest(view.most), sum(layer.seconds for layer in profile.layers) or 1.0
    rows = [
        [
            layer.layer,
            seconds(layer.t_f),
            seconds(layer.t_b) if layer.t_b else "",
            seconds(layer.seconds),
            span(*layer.both.ends) if layer.both.ends else "",
            f"{layer.seconds / whole:.0%}",
        ]
        for layer in shown
    ]
    named = label(profile.factors, view.analysis.varied)
    columns = ["layer", "forward", "backward", "both", "95 % interval", "share"]
    console().print(filled_table(columns, rows, title=f"layers with {named}, in the network's order"))
    if len(shown) < len(profile.layers):
        console().print(f"… and {len(profile.layers) - len(shown)} shorter ones (--all shows them)")


def scaling(view: View) -> None:
    """Speed-ups, measured and by the S-SGD formulas; laws of scaling."""
    series = view.analysis.scaling
    if not series:
        return
    names = tuple(name for name in view.analysis.varied if any(name in curve.factors for curve in series))
    rows = [row for curve in view.shown(series) for row in _points(curve, names)]
    columns = [_heading(names), "N", "t_iter", "S", "95 %", "eff.", "S-SGD", "hidden", "LIF"]
    title = "speed-up: measured, and by the S-SGD formulas (all added; overlap hides all it can)"
    console().print(table(columns, rows, title=title))
    view.rest(series)
    _laws([curve for curve in view.shown(series) if len(curve.points) >= WORKERS_OF_A_LAW], names)


def _laws(series: Sequence[Scaling], names: Sequence[str]) -> None:
    """The laws of the series that have enough numbers of workers for one."""
    if not series:
        return
    columns = [_heading(names), "S(N)", "law", "serial", "95 %", "q", "95 %"]
    title = "laws of scaling (full bar: ideal; serial: share that does not scale; q ideal −1)"
    console().print(table(columns, [_law(curve, names) for curve in series], title=title))
    _notes(series)


def _points(curve: Scaling, names: Sequence[str]) -> list[list[str]]:
    rows = []
    for at, point in enumerate(curve.points):
        s, e = point.speedup, point.efficiency
        rows.append(
            [
                _label(curve.factors, names) if at == 0 else "",
                str(point.workers),
                seconds(point.t_iter.median),
                f"{s.value:.2f}" if s else "",
                ratio_span(s.low, s.high) if s and point.workers > 1 else "",
                f"{e.value:.0%}" if e else "",
                *(f"{point.predicted[o]:.2f}" if o in point.predicted else "" for o in ("none", "both")),
                f"{point.lif.value:.2f}" if point.lif else "",
            ]
        )
    return rows


def _law(curve: Scaling, names: Sequence[str]) -> list[str]:
    known = [point.speedup.value for point in curve.points if point.speedup]
    serial = curve.law.serial if curve.law else None
    return [
        _label(curve.factors, names),
        spark(known, float(curve.points[-1].workers)),
        curve.law.name if curve.law else "",
        f"{serial.value:.3f}" if serial else "",
        _edges(serial),
        f"{curve.power.value:.2f}" if curve.power else "",
        _edges(curve.power),
    ]


def _edges(estimate: Estimate | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:.2f}, {estimate.high:.2f}"


def _notes(series: Sequence[Scaling]) -> None:
    """What must be said beside the laws and regressions, each only once."""
    notes = [f"law: {curve.law.note}" for curve in series if curve.law and curve.law.note]
    regressions = [curve.regression for curve in series if curve.regression and curve.regression.note]
    notes += [f"t = β0 + β1·N + β2·LIF: {regression.note}" for regression in regressions]
    for text in list(dict.fromkeys(notes))[:4]:
        console().print(text, markup=False)


def why(view: View) -> None:
    """Why more workers are slower, and what would help."""
    show_why(view.analysis.why, view.analysis.varied, view.most)


def frameworks(view: View) -> None:
    """Frameworks in order, then compared pair by pair."""
    pairs = view.analysis.frameworks
    if not pairs:
        return
    _ranking(view)
    names = tuple(name for name in view.analysis.varied if name != "framework")
    rows = [
        [
            f"{pair.first} / {pair.second}",
            pair.measure,
            _label(pair.about, names) if pair.about is not None and set(names) & set(pair.about) else "all",
            f"{pair.ratio:.2f}",
            ratio_span(pair.low, pair.high),
            "real" if pair.real else "",
        ]
        for pair in view.shown(pairs)
    ]
    columns = ["frameworks", "measure", _heading(names), "ratio", "95 % of all", "verdict"]
    console().print(table(columns, rows, title="frameworks, paired by configuration and replicate", left=3))
    view.rest(pairs)
    training = view.analysis.training
    if training is not None and (left_out := not_compared(training, view.analysis.varied)):
        console().print(left_out, markup=False)


def _ranking(view: View) -> None:
    """The frameworks by throughput, with letters for those that cannot be told apart."""
    order = view.analysis.ranking
    if order is None:
        return
    rows = [[place.framework, f"{place.ratio:.2f}", place.letters] for place in order.places]
    console().print(table(["framework", "of the first", "group"], rows, title=f"frameworks by {order.measure}"))
    console().print("Those that share a letter cannot be told apart.", markup=False)
    if order.left_out:
        console().print(f"Not compared, as they are the slowest: {', '.join(order.left_out)}.", markup=False)


def effects(view: View) -> None:
    """Main effects: by which factor a level multiplies the step time."""
    all_effects = view.analysis.effects
    if not all_effects:
        for text in describe(view.analysis.designed):
            console().print(text, markup=False)
        return
    rows = [
        [
            effect.factor,
            f"{effect.level} / {effect.reference}",
            f"{effect.ratio:.2f}",
            ratio_span(effect.low, effect.high),
            "real" if effect.differs else "",
        ]
        for effect in view.shown(all_effects)
    ]
    title = "main effects on the step time (ratios)"
    console().print(table(["factor", "levels", "ratio", "95 % of all", "verdict"], rows, title=title, left=2))
    view.rest(all_effects)
    if view.analysis.designed.anova:
        rows = [list(row) for row in table_rows(view.analysis.designed)]
        console().print(table(list(TABLE_COLUMNS), rows, title="analysis of variance"))
    for text in describe(view.analysis.designed):
        console().print(text, markup=False)


def imbalance(view: View) -> None:
    """Which rank waits for which, and where the slow one spends its time."""
    for trial in view.analysis.imbalance:
        doubt = f" (the trial is {trial.verdict})" if trial.verdict not in (None, "clean") else ""
        console().print(f"imbalance, trial {trial.trial}: {trial.sentence}; LIF {trial.lif:.2f}{doubt}", markup=False)


def noise(view: View) -> None:
    """How noisy the study is."""
    judged = view.analysis.noise
    parts = [f"noise: {judged.verdict}"]
    parts += [f"between replicates {by(math.exp(judged.between))}"] if judged.between is not None else []
    parts += [f"within a trial {by(1 + judged.within)}"] if judged.within is not None else []
    parts += [f"other programs {judged.others:.0%} of the machine"] if judged.others is not None else []
    console().print(", ".join(parts), markup=False)


def _heading(names: Sequence[str]) -> str:
    return ", ".join(names) or "configuration"


def _label(factors: dict[str, Level], names: Sequence[str]) -> str:
    return ", ".join(str(factors.get(name, "-")) for name in names)

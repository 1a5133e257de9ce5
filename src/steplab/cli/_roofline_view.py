"""How a roofline is shown on a terminal: tables of 80 columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

from steplab.api.results.roofline_words import sentences
from steplab.api.results.rooflines import FLOAT32, Ceiling, Ceilings, Roofline, RooflinePoint
from steplab.cli._output import console, sentence, table
from steplab.core.units import count, seconds

WIDTH = 80
SMALL = 0.01  # of all the time: what is less is not worth a line
SHORT = {"activation": "act", "adaptive_avg_pool": "pool", "global_avg_pool": "pool", "batch_norm": "norm"}
SHORT |= {
    "dropout": "drop",
    "max_pool": "pool",
    "avg_pool": "pool",
    "layer_norm": "norm",
    "forward": "fwd",
    "backward": "bwd",
}


def show_ceilings(roofs: Ceilings) -> None:
    """The roofs as a table."""
    out = console()
    sentence(roofs.machine)
    how = f"measured {roofs.date} through {roofs.source}" if roofs.origin == "measured" else f"from {roofs.source}"
    sentence(f"ceilings {how}; caches and memory in B/s")
    names = [level.name for level in max(roofs.rows, key=lambda row: len(row.levels)).levels]
    columns = ["threads", "in", "FLOP/s", *names, "ridge", "spread", "others"]
    shown = table(columns, [_ceiling_row(row, names) for row in roofs.rows], left=0)
    shown.padding = (0, 1, 0, 0)
    out.print(shown, width=min(WIDTH, out.width))
    for note in roofs.notes:
        sentence(f"note: {note}")


def _ceiling_row(row: Ceiling, names: list[str]) -> list[object]:
    rates = {level.name: count(level.bytes_per_s) for level in row.levels}
    others = None if row.others is None else f"{row.others:.0%}"
    spread = f"{row.spread:.0%}" if row.threads else None
    return [
        row.threads or None,
        row.precision,
        count(row.flops_per_s),
        *(rates.get(n) for n in names),
        f"{row.ridge:.3g}",
        spread,
        others,
    ]


def worth_showing(points: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """The points in which time goes, and all phases; where none was measured, the least time that the roof allows."""
    times = [point.seconds or point.flops / point.attainable for point in points]
    total = sum(time for point, time in zip(points, times, strict=True) if point.kind != "phase")
    chosen = zip(points, times, strict=True)
    return [point for point, time in chosen if point.kind == "phase" or time >= SMALL * total or point.above]


def show(roofline: Roofline, every: bool) -> None:
    """The points of one configuration as a table, and what they say in a sentence."""
    threads = roofline.ceiling.threads
    below = f"below the roofs of {threads} thread{'s' * (threads > 1)}" if threads else "below the published roofs"
    below += f" in {roofline.ceiling.precision}" if roofline.ceiling.precision != FLOAT32 else ""
    sentence(f"\n{roofline.title}; {below}")
    if roofline.points:
        _show_points(roofline, every)
    for text in [*sentences(roofline), *(f"note: {note}" for note in roofline.notes)]:
        sentence(text)


def _show_points(roofline: Roofline, every: bool) -> None:
    out = console()
    timed = not roofline.estimated
    columns = ["layer", "kind", "pass", "roof", "FLOP/B", *(["time", "FLOP/s", "of roof"] if timed else ["at most"])]
    chosen = list(roofline.points) if every else worth_showing(roofline.points)
    shown = table(columns, [_row(point, timed) for point in chosen], left=4)
    shown.padding = (0, 1, 0, 0)
    out.print(shown, width=min(WIDTH, out.width))
    if len(chosen) < len(roofline.points):
        left_out = len(roofline.points) - len(chosen)
        out.print(f"{left_out} with less than {SMALL:.0%} of the time each: --all shows them", markup=False)


def _row(point: RooflinePoint, timed: bool) -> list[object]:
    head = [point.layer, SHORT.get(point.kind, point.kind), SHORT.get(point.of, point.of), point.roof]
    intensity = f"{point.intensity:.3g}" if math.isfinite(point.intensity) else None
    if not timed:
        return [*head, intensity, f"{count(point.attainable)}"]
    share = point.share_of_roof
    told = None if share is None else f"{share:.0%}" + ("" if point.judged else "?") + (" !" if point.above else "")
    rate = None if point.flops_per_s is None else count(point.flops_per_s)
    return [*head, intensity, None if point.seconds is None else seconds(point.seconds), rate, told]

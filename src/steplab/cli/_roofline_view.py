"""How a roofline is shown: tables of 80 columns, a JSON document, a page with the chart in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplab.cli._output import console, table
from steplab.core.errors import InputError, allowed
from steplab.core.units import count, seconds

if TYPE_CHECKING:
    from steplab.analysis.roofline.points import Roofline, RooflinePoint
    from steplab.costs.roofs import Ceiling, Ceilings

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
    out.print(f"{roofs.machine}", markup=False, soft_wrap=True)
    how = f"measured {roofs.date} through {roofs.source}" if roofs.origin == "measured" else f"from {roofs.source}"
    out.print(f"ceilings {how}", markup=False, soft_wrap=True)
    names = [level.name for level in max(roofs.rows, key=lambda row: len(row.levels)).levels]
    columns = ["threads", "FLOP/s", *(f"{name} B/s" for name in names), "ridge", "spread", "others"]
    out.print(table(columns, [_ceiling_row(row, names) for row in roofs.rows], left=0), width=min(WIDTH, out.width))
    for note in roofs.notes:
        out.print(f"note: {note}", markup=False, soft_wrap=True)


def _ceiling_row(row: Ceiling, names: list[str]) -> list[object]:
    rates = {level.name: count(level.bytes_per_s) for level in row.levels}
    others = None if row.others is None else f"{row.others:.0%}"
    spread = f"{row.spread:.0%}" if row.threads else None
    return [
        row.threads or None,
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
    out = console()
    threads = roofline.ceiling.threads
    below = f"below the roofs of {threads} thread{'s' * (threads > 1)}" if threads else "below the published roofs"
    out.print(f"\n{roofline.title}; {below}", markup=False, soft_wrap=True)
    timed = not roofline.estimated
    columns = ["layer", "kind", "pass", "roof", "FLOP/B", *(["time", "FLOP/s", "of roof"] if timed else ["at most"])]
    chosen = list(roofline.points) if every else worth_showing(roofline.points)
    shown = table(columns, [_row(point, timed) for point in chosen], left=4)
    shown.padding = (0, 1, 0, 0)
    out.print(shown, width=min(WIDTH, out.width))
    if len(chosen) < len(roofline.points):
        left_out = len(roofline.points) - len(chosen)
        out.print(f"{left_out} with less than {SMALL:.0%} of the time each: --all shows them", markup=False)
    for sentence in [*sentences(roofline), *(f"note: {note}" for note in roofline.notes)]:
        out.print(sentence, markup=False, soft_wrap=True)


def _row(point: RooflinePoint, timed: bool) -> list[object]:
    head = [point.layer, SHORT.get(point.kind, point.kind), SHORT.get(point.of, point.of), point.roof]
    intensity = f"{point.intensity:.3g}" if math.isfinite(point.intensity) else None
    if not timed:
        return [*head, intensity, f"{count(point.attainable)}"]
    share = point.share_of_roof
    told = None if share is None else f"{share:.0%}" + ("" if point.judged else "?") + (" !" if point.above else "")
    rate = None if point.flops_per_s is None else count(point.flops_per_s)
    return [*head, intensity, None if point.seconds is None else seconds(point.seconds), rate, told]


def sentences(roofline: Roofline, short: str = "?", wrong: str = "!") -> list[str]:
    """What the points say: which side they are on, what is too short, what cannot be; with the marks of the latter."""
    from steplab.analysis.roofline.points import above

    single = [point for point in roofline.points if point.kind != "phase"]
    if not single:
        return []
    made = [_sides(single)]
    if roofline.estimated:
        made.append("estimated: no time was measured; the FLOP/s are what the roof allows at most")
    elif any(not point.judged for point in single):
        made.append(f"{short}: too short to be judged")
    high = above(roofline.points)
    if high:
        made.append(
            f"{wrong}: {len(high)} above their roof, which cannot be; the ceilings may come from a busy machine "
            "(--remeasure), or the framework needs fewer operations than are counted (Winograd, FFT)"
        )
    return made


def _sides(points: Sequence[RooflinePoint]) -> str:
    compute = [point for point in points if point.bound == "compute"]
    told = f"{len(compute)} of {len(points)} are bound by arithmetic, {len(points) - len(compute)} by bandwidth"
    total = sum(point.seconds or 0.0 for point in points)
    share = sum(point.seconds or 0.0 for point in compute) / total if total else 0.0
    return told + (f"; the former take {share:.0%} of the time" if total else "")


def document(roofs: Ceilings, made: list[Roofline]) -> dict[str, Any]:
    """The JSON document."""
    return {
        "machine": roofs.machine,
        "origin": roofs.origin,
        "source": roofs.source,
        "date": roofs.date or None,
        "notes": [*roofs.notes, *dict.fromkeys(note for one in made for note in one.notes)],
        "ceilings": [_ceiling(row) for row in roofs.rows],
        "points": [point_document(one, point) for one in made for point in one.points],
    }


def _ceiling(row: Ceiling) -> dict[str, Any]:
    levels = [
        {
            "name": level.name,
            "bytes_per_s": level.bytes_per_s,
            "capacity_bytes": level.capacity,
            "spread": level.spread,
            "kernel": level.kernel,
        }
        for level in row.levels
    ]
    return {
        "threads": row.threads or None,
        "flops_per_s": row.flops_per_s,
        "bytes_per_s": row.bytes_per_s,
        "spread": row.spread,
        "ridge": row.ridge,
        "other_cpu_share": row.others,
        "levels": levels,
    }


def point_document(roofline: Roofline, point: RooflinePoint) -> dict[str, Any]:
    """A point in JSON; where no time was measured, `flops_per_s` is what the roof allows and `estimated` says so."""
    return {
        "configuration": roofline.title,
        "threads": roofline.ceiling.threads or None,
        "layer": point.layer,
        "kind": point.kind,
        "pass": point.of,
        "flops": point.flops,
        "bytes": point.bytes,
        "intensity": point.intensity,
        "seconds": point.seconds,
        "flops_per_s": point.attainable if point.flops_per_s is None else point.flops_per_s,
        "attainable_flops_per_s": point.attainable,
        "bound": point.bound,
        "roof": point.roof,
        "share_of_roof": point.share_of_roof,
        "estimated": point.seconds is None,
        "judged": point.judged,
        "above_roof": point.above,
    }


def check_page(out: Path) -> None:
    """Say what is wrong with the name of a page before anything is measured."""
    if out.suffix != ".html":
        raise InputError(f"{out.name!r} has no known ending", where="--out", hint=allowed([".html"]))
    if not out.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=f"--out {out.parent}", hint="make it first")


def write_page(out: Path, made: list[Roofline]) -> None:
    """One self-contained page with a chart for each configuration."""
    import jinja2
    from plotly.offline import get_plotlyjs

    from steplab.analysis.roofline.chart import figure
    from steplab.store.records import write_file

    # "</script>" inside a name would end the script; in JSON the slash may be escaped.
    charts = [figure(one).to_json().replace("</", "<\\/").replace("<!--", "<\\u0021--") for one in made]
    page = jinja2.Environment(autoescape=True).from_string(PAGE)
    notes = [(*sentences(one, "faint", "above a line"), *one.notes) for one in made]
    text = page.render(plotly=get_plotlyjs(), charts=list(zip(charts, notes, strict=True)))
    write_file(out, text.encode())


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Roofline</title>
<style>body{font-family:system-ui,sans-serif;max-width:1100px;margin:1rem auto;padding:0 1rem}p{margin:.3rem 0}</style>
<script>{{ plotly|safe }}</script></head><body>
{% for chart, notes in charts %}<div id="c{{ loop.index }}"></div>
{% for note in notes %}<p>{{ note }}</p>{% endfor %}
<script>(function(f){Plotly.newPlot("c{{ loop.index }}",f.data,f.layout,{responsive:true})})({{ chart|safe }})</script>
{% endfor %}</body></html>
"""

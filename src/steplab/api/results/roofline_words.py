"""What rooflines say: sentences, and the JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steplab.analysis.roofline.points import Roofline, RooflinePoint, above
from steplab.costs.roofs import Ceiling, Ceilings


def sentences(roofline: Roofline, short: str = "?", wrong: str = "!") -> list[str]:
    """What the points say: which side they are on, what is too short, what cannot be; with the marks of the latter."""
    single = [point for point in roofline.points if point.kind != "phase"]
    if not single:
        return []
    lines = [_sides(single)]
    if roofline.estimated:
        lines.append("estimated: no time was measured; the FLOP/s are what the roof allows at most")
    elif any(not point.judged for point in single):
        lines.append(f"{short}: too short to be judged")
    high = above(roofline.points)
    if high:
        lines.append(
            f"{wrong}: {len(high)} above their roof, which cannot be; the ceilings may come from a busy machine "
            "(--remeasure), or the framework needs fewer operations than are counted (Winograd, FFT)"
        )
    return lines


def _sides(points: Sequence[RooflinePoint]) -> str:
    compute = [point for point in points if point.bound == "compute"]
    told = f"{len(compute)} of {len(points)} are bound by arithmetic, {len(points) - len(compute)} by bandwidth"
    total = sum(point.seconds or 0.0 for point in points)
    share = sum(point.seconds or 0.0 for point in compute) / total if total else 0.0
    return told + (f"; the former take {share:.0%} of the time" if total else "")


def document(roofs: Ceilings, rooflines: Sequence[Roofline]) -> dict[str, Any]:
    """The JSON document."""
    return {
        "machine": roofs.machine,
        "origin": roofs.origin,
        "source": roofs.source,
        "date": roofs.date or None,
        "notes": [*roofs.notes, *dict.fromkeys(note for roofline in rooflines for note in roofline.notes)],
        "ceilings": [_ceiling(row) for row in roofs.rows],
        "points": [point_document(roofline, point) for roofline in rooflines for point in roofline.points],
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
        "precision": row.precision,
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
        "precision": roofline.ceiling.precision,
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

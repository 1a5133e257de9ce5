"""Writes one trial's timeline as Chrome/Perfetto trace-event JSON: a process per rank, a row per mode.

Format: "Trace Event Format" (Google, public document linked from chromium.org/developers/how-tos/trace-event-profiling-
tool); complete events (ph "X") and metadata events (ph "M"), microseconds.

A record holds durations, not moments. Iterations of a mode follow each other; in phased mode the ranks are aligned
where they must have met: the moment at which waiting for the slowest rank ends and bytes move is one for all. Phases
stand in the order of their table (`steplab_worker.phases`), so the unexplained t_other is the gap at an iteration's
end. Layers were measured in iterations of their own, so they have a row of their own after the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steplab.core.record import LayerTime, Mode, Rank, Record
from steplab.core.trial import describe
from steplab_worker.phases import BEFORE_EXCHANGE, EXCHANGE, EXCHANGE_PARTS, addends

LAYERS = "layers (measured apart)"


@dataclass(frozen=True)
class Slice:
    """One bar of the timeline, in whole nanoseconds."""

    start: int
    duration: int
    name: str
    category: str
    arguments: tuple[tuple[str, object], ...] = ()


def trace_json(record: Record) -> bytes:
    """The timeline of a trial; the same record gives the same bytes."""
    events = list(_events(record))
    about = {
        "study": record.study,
        "trial": record.trial,
        "configuration": describe(record.config),
        "alignment": "ranks meet where t_wait ends; modes follow each other; t_other is the gap at an iteration's end",
    }
    document = {"displayTimeUnit": "ms", "otherData": about, "traceEvents": events}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _events(record: Record) -> Iterator[dict[str, object]]:
    modes = [mode for mode in ("native", "overlap", "phased") if all(mode in rank.modes for rank in record.ranks)]
    if "phased" in modes and _one_run(record.ranks[0]):
        modes = ["phased"]
    rows = [*modes, *([LAYERS] if any(rank.layers for rank in record.ranks) else [])]
    for rank in record.ranks:
        yield from _names(rank, rows)
    begin = 0
    for row, name in enumerate(rows):
        tracks = _tracks(record.ranks, name, begin)
        for rank, track in zip(record.ranks, tracks, strict=True):
            yield from (_complete(rank.rank, row, slice_) for slice_ in track)
        begin = max((slice_.start + slice_.duration for track in tracks for slice_ in track), default=begin)


def _one_run(rank: Rank) -> bool:
    """Whether all modes tell of the same iterations, as imported ones do."""
    return rank.modes["native"].columns["t_iter"] == rank.modes["phased"].columns["t_iter"]


def _names(rank: Rank, rows: Sequence[str]) -> Iterator[dict[str, object]]:
    def named(kind: str, row: int, **arguments: object) -> dict[str, object]:
        return {"ph": "M", "name": kind, "pid": rank.rank + 1, "tid": row + 1, "args": arguments}

    yield named("process_name", 0, name=f"rank {rank.rank} on {rank.host}")
    yield named("process_sort_index", 0, sort_index=rank.rank)
    for row, name in enumerate(rows):
        yield named("thread_name", row, name=name if name == LAYERS else f"{name} steps")
        yield named("thread_sort_index", row, sort_index=row)


def _complete(rank: int, row: int, slice_: Slice) -> dict[str, object]:
    """The event of a bar; numbers begin with 1, for process 0 is the idle one to Perfetto."""
    event: dict[str, object] = {"ph": "X", "name": slice_.name, "cat": slice_.category, "pid": rank + 1, "tid": row + 1}
    event |= {"ts": slice_.start / 1000, "dur": slice_.duration / 1000}
    return event | ({"args": dict(slice_.arguments)} if slice_.arguments else {})


def _tracks(ranks: Sequence[Rank], row: str, begin: int) -> list[list[Slice]]:
    if row == LAYERS:
        return [_layers(rank.layers or [], begin) for rank in ranks]
    modes = [rank.modes[row] for rank in ranks]
    starts = _starts(modes, begin)
    return [_iterations(mode, moments) for mode, moments in zip(modes, starts, strict=True)]


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _length(mode: Mode, at: int) -> int:
    """How long an iteration's bar is: its t_iter, or its phases if they say more (as some imported ones do)."""
    phases = sum(_ns(mode.columns[name][at]) for name in addends(mode.columns))
    return max(_ns(mode.columns["t_iter"][at]), phases)


def _starts(modes: Sequence[Mode], begin: int) -> list[list[int]]:
    """When each iteration of each rank begins: as soon as it can, but so that all meet where waiting ends."""
    free = [begin] * len(modes)
    starts: list[list[int]] = [[] for _ in modes]
    for at in range(min(len(mode.warmup) for mode in modes)):
        ahead = [_until_meeting(mode, at) for mode in modes]
        if all(time is not None for time in ahead):
            known = [time or 0 for time in ahead]
            meeting = max(moment + time for moment, time in zip(free, known, strict=True))
            begins = [meeting - time for time in known]
        else:
            begins = free
        for rank, mode in enumerate(modes):
            starts[rank].append(begins[rank])
            free[rank] = begins[rank] + _length(mode, at)
    return starts


def _until_meeting(mode: Mode, at: int) -> int | None:
    """Nanoseconds from an iteration's start to the ranks' meeting; None if this iteration exchanges nothing."""
    columns = mode.columns
    if not any(columns[name][at] for name in (EXCHANGE, *EXCHANGE_PARTS) if name in columns):
        return None
    # Where waiting and moving are not told apart, the end of both is what the ranks share.
    counted = addends(columns)
    until = ("t_wait",) if "t_wait" in counted else ("t_move", EXCHANGE)
    return sum(_ns(columns[name][at]) for name in (*BEFORE_EXCHANGE, *until) if name in counted)


def _iterations(mode: Mode, starts: Sequence[int]) -> list[Slice]:
    slices = []
    for at, start in enumerate(starts):
        others = [name for name in mode.columns if name not in addends(mode.columns)]
        arguments = (("warmup", mode.warmup[at]), *((f"{name}_s", mode.columns[name][at]) for name in others))
        category = "warmup" if mode.warmup[at] else "iteration"
        slices.append(Slice(start, _length(mode, at), f"iteration {at}", category, arguments))
        slices += _phases(mode, at, start)
    return slices


def _phases(mode: Mode, at: int, start: int) -> Iterator[Slice]:
    for name in addends(mode.columns):
        duration = _ns(mode.columns[name][at])
        if duration:
            yield Slice(start, duration, name, "phase")
        start += duration


def _layers(layers: Sequence[LayerTime], begin: int) -> list[Slice]:
    """The iterations in which layers were timed: forward in the network's order, backward against it."""
    slices = []
    for iteration in sorted({layer.iteration for layer in layers}):
        mine = [layer for layer in layers if layer.iteration == iteration]
        forward = [(layer.layer, _ns(layer.t_f)) for layer in mine if layer.t_f > 0]
        backward = [(layer.layer, _ns(layer.t_b)) for layer in reversed(mine) if layer.t_b > 0]
        inner = [*_parts("t_f", forward, begin), *_parts("t_b", backward, begin + sum(time for _, time in forward))]
        length = sum(time for _, time in forward + backward)
        slices += [Slice(begin, length, f"layers of iteration {iteration}", "layers"), *inner]
        begin += length
    return slices


def _parts(phase: str, parts: Sequence[tuple[str, int]], start: int) -> Iterator[Slice]:
    """A phase with its layers in it, one after the other."""
    if parts:
        yield Slice(start, sum(time for _, time in parts), phase, "phase")
    for layer, duration in parts:
        yield Slice(start, duration, layer, "layer")
        start += duration

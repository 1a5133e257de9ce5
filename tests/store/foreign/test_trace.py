"""A trial's timeline keeps to the trace-event format, nests, and lets ranks meet where they met."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.core.record import Record
from steplab.core.trial import trial_id
from steplab.store.foreign.trace import trace_json
from steplab_worker.phases import MEASURED

REQUIRED = {"X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"}, "M": {"name", "ph", "pid", "tid", "args"}}
METADATA = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index",
            "thread_sort_index": "sort_index"}  # fmt: skip


def checked(content: bytes) -> list[dict[str, Any]]:
    """The complete events of a trace, after a strict check against the Trace Event Format."""
    document = json.loads(content)
    assert document["displayTimeUnit"] in ("ms", "ns")
    assert isinstance(document["otherData"], dict)
    events = document["traceEvents"]
    for event in events:
        assert REQUIRED[event["ph"]] <= event.keys()
        assert event.keys() <= {*REQUIRED[event["ph"]], "args"}
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["name"], str) and isinstance(event.get("args", {}), dict)
        if event["ph"] == "M":
            kind = str if METADATA[event["name"]] == "name" else int
            assert isinstance(event["args"][METADATA[event["name"]]], kind)
        else:
            assert math.isfinite(event["ts"]) and event["ts"] >= 0
            assert math.isfinite(event["dur"]) and event["dur"] >= 0
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    slices = [event for event in events if event["ph"] == "X"]
    assert {(event["pid"], event["tid"]) for event in slices} <= named
    for track in named:
        nested([event for event in slices if (event["pid"], event["tid"]) == track])
    return slices


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def nested(track: list[dict[str, Any]]) -> None:
    """Slices of one track lie in each other or apart, never half over each other."""
    open_ends: list[int] = []
    for event in sorted(track, key=lambda event: (ns(event["ts"]), -ns(event["dur"]))):
        start, end = ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1], f"{event} crosses another slice"
        open_ends.append(end)


def two_ranks(record: Callable[..., Record], **more: Any) -> Record:
    """Rank 0 computes 3 s, rank 1 1 s and so waits 2 s; both move bytes for 1 s."""

    def phased(f: float, wait: float) -> dict[str, Any]:
        columns = {
            "t_iter": [f + wait + 1.5] * 2,
            "t_f": [f] * 2,
            "t_wait": [wait] * 2,
            "t_move": [1.0] * 2,
            "t_u": [0.25] * 2,
        }
        native = {"columns": {"t_iter": [4.0, 4.0]}, "warmup": [True, False]}
        return {"modes": {"native": native, "phased": {"columns": columns, "warmup": [True, False]}}, **more}

    return record(phased(3.0, 0.0), phased(1.0, 2.0))


def of(slices: list[dict[str, Any]], name: str, rank: int) -> list[tuple[float, float]]:
    return [(e["ts"] / 1e6, e["dur"] / 1e6) for e in slices if e["name"] == name and e["pid"] == rank + 1]


def test_ranks_meet_where_waiting_ends(record: Callable[..., Record]) -> None:
    slices = checked(trace_json(two_ranks(record)))
    assert of(slices, "t_move", 0) == of(slices, "t_move", 1)
    assert of(slices, "t_wait", 1)[0][1] == 2.0
    assert of(slices, "t_wait", 0) == []  # nothing is drawn where nothing was measured


def test_phased_steps_follow_the_native_ones_and_leave_t_other_open(record: Callable[..., Record]) -> None:
    slices = checked(trace_json(two_ranks(record)))
    iterations = [e for e in slices if e["name"] == "iteration 0" and e["pid"] == 1]
    assert [(e["ts"] / 1e6, e["dur"] / 1e6, e["cat"]) for e in iterations] == [(0, 4, "warmup"), (8, 4.5, "warmup")]
    update = of(slices, "t_u", 0)[0]
    assert sum(update) == pytest.approx(8 + 4.25)


def test_layers_have_a_row_of_their_own_after_the_rest(record: Callable[..., Record]) -> None:
    layers = [
        {"layer": name, "iteration": at, "t_f": 0.5, "t_b": 1.0 if name == "conv" else 0.0}
        for at in (0, 1)
        for name in ("conv", "dense")
    ]
    content = trace_json(two_ranks(record, layers=layers))
    slices = checked(content)
    names = [e["args"]["name"] for e in json.loads(content)["traceEvents"] if e["name"] == "thread_name"]
    assert "layers (measured apart)" in names
    end = max(e["ts"] + e["dur"] for e in slices if e["cat"] in ("iteration", "warmup"))
    mine = [e for e in slices if e["cat"] == "layer" and e["pid"] == 1]
    assert [e["name"] for e in mine] == ["conv", "dense", "conv"] * 2
    assert all(e["ts"] >= end for e in mine)


def test_the_same_record_gives_the_same_bytes(record: Callable[..., Record]) -> None:
    assert trace_json(two_ranks(record)) == trace_json(two_ranks(record))


def test_phases_that_exceed_their_step_still_nest(record: Callable[..., Record]) -> None:
    columns = {"t_iter": [1.0], "t_f": [2.0]}
    native = {"columns": {"t_iter": [1.0]}, "warmup": [False]}
    slices = checked(
        trace_json(record({"modes": {"native": native, "phased": {"columns": columns, "warmup": [False]}}}))
    )
    assert [e["args"]["t_iter_s"] for e in slices if e["name"] == "iteration 0"] == [1.0]


SECONDS = st.floats(0, 10) | st.just(0.0)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), ranks=st.integers(1, 3), count=st.integers(1, 4), have=st.sets(st.sampled_from(MEASURED[1:])))
def test_every_record_makes_a_valid_trace(data: st.DataObject, ranks: int, count: int, have: set[str]) -> None:
    def mode(names: set[str]) -> dict[str, Any]:
        drawn = {name: data.draw(st.lists(SECONDS, min_size=count, max_size=count)) for name in sorted(names)}
        return {"columns": drawn, "warmup": [False] * count}

    config = {"workers": ranks}
    said = [
        {"rank": at, "host": "<h>", "pid": 1, "cpu_s": 1, "peak_bytes": 1, "loss": None,
         "modes": {"native": mode({"t_iter"}), "phased": mode({"t_iter", *have})}}
        for at in range(ranks)
    ]  # fmt: skip
    made = Record.model_validate(
        {"study": "s", "trial": trial_id(config, 0), "replicate": 0, "kind": "step", "status": "ok", "config": config,
         "resolved": config | {"batch_size": 1}, "measure": {}, "ranks": said, "threads": 1, "started": "",
         "seconds": 1, "command": "",
         "data": {"name": "none", "source": "none", "samples": 0}}
    )  # fmt: skip
    checked(trace_json(made))

"""Traces that torch.profiler wrote are read with the totals that they hold; whatever else is one sentence."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.core.errors import InputError
from steplab.store import tables
from steplab.store.foreign.imported import write_study
from steplab.store.foreign.kineto import read_kineto
from steplab.store.foreign.kineto_trace import read_trace

Traces = Callable[..., Path]
MICRO = 1e-6


def events(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [event for event in json.loads(text)["traceEvents"] if event.get("ph") == "X"]


def total(path: Path, beginning: str) -> float:
    """Seconds of all spans with such a name within the profiled steps."""
    steps = [event for event in events(path) if event["name"].startswith("ProfilerStep#")]
    chosen = [
        event["dur"]
        for event in events(path)
        if event["name"].startswith(beginning)
        and any(step["ts"] <= event["ts"] < step["ts"] + step["dur"] for step in steps)
    ]
    return sum(chosen) * MICRO


def summed(study: Any, rank: int, mode: str, column: str) -> float:
    return sum(study.trials[0].ranks[rank].modes[mode].columns[column])


@pytest.mark.parametrize(
    ("column", "beginning"),
    [
        ("t_iter", "ProfilerStep#"),
        ("t_io", "enumerate(DataLoader)"),
        ("t_b", "autograd::engine::evaluate_function"),
        ("t_u", "Optimizer.step"),
    ],
)
def test_totals_of_one_rank_are_the_traces_own(traces: Traces, column: str, beginning: str) -> None:
    (path,) = traces(1).iterdir()
    study = read_kineto(traces(1))
    assert summed(study, 0, "phased", column) == pytest.approx(total(path, beginning), rel=1e-9)


def test_forward_time_is_that_of_the_operations_before_the_backward_pass(traces: Traces) -> None:
    (path,) = traces(1).iterdir()
    tops = (
        "aten::conv2d",
        "aten::relu",
        "aten::flatten",
        "aten::linear",
        "aten::cross_entropy_loss",
        "aten::ones_like",
    )
    expected = sum(total(path, name) for name in tops)
    # Besides these the trace has only the loader's operations there.
    assert summed(read_kineto(traces(1)), 0, "phased", "t_f") == pytest.approx(expected, rel=1e-9)


def painted(path: Path) -> list[dict[str, float]]:
    """The phases of each step by another way: every nanosecond is painted, later colours over earlier ones."""
    found = events(path)
    made = []
    for step in [event for event in found if event["name"].startswith("ProfilerStep#")]:
        line = np.zeros(round(step["dur"] * 1000), dtype=np.int8)

        def paint(
            colour: int, chosen: Iterable[dict[str, Any]], end: float = np.inf, step: Any = step, line: Any = line
        ):
            for event in chosen:
                if step["ts"] <= event["ts"] < step["ts"] + step["dur"]:
                    first = round((event["ts"] - step["ts"]) * 1000)
                    line[first : round((min(event["ts"] + event["dur"], end) - step["ts"]) * 1000)] = colour

        def named(beginning: str) -> list[dict[str, Any]]:
            return [event for event in found if event["name"].startswith(beginning)]

        inside = [e for e in named("Optimizer.step") if step["ts"] <= e["ts"] < step["ts"] + step["dur"]]
        back = named("autograd::engine::evaluate_function")
        first = min(event["ts"] for event in back if event["ts"] > step["ts"])
        operations = [e for e in named("aten::") + named("DistributedDataParallel.forward") if e["ts"] < first]
        paint(1, named("gloo:"), end=inside[0]["ts"])
        paint(2, operations)
        paint(3, back)
        paint(4, named("Optimizer.step"))
        paint(5, named("enumerate(DataLoader)"))
        paint(6, named("c10d::"))
        names = {"t_f": [2], "t_b": [3], "t_u": [4], "t_io": [5], "t_c": [1, 6]}
        made.append({name: np.isin(line, colours).sum() * 1e-9 for name, colours in names.items()})
    return made


@pytest.mark.parametrize("rank", [0, 1])
def test_every_moment_of_two_ranks_belongs_to_one_phase(traces: Traces, rank: int) -> None:
    phased = read_kineto(traces(2)).trials[0].ranks[rank].modes["phased"].columns
    for at, expected in enumerate(painted(traces(2) / f"rank{rank}.pt.trace.json")):
        found = {name: phased[name][at] for name in expected}
        assert found == pytest.approx(expected, abs=2e-7)


def test_communication_is_total_and_exposed(traces: Traces) -> None:
    for rank in read_kineto(traces(2)).trials[0].ranks:
        overlap, phased = rank.modes["overlap"].columns, rank.modes["phased"].columns
        assert all(c > 0 for c in overlap["t_comm"])
        assert all(0 <= part <= whole for part, whole in zip(overlap["t_exposed"], overlap["t_comm"], strict=True))
        assert all(c <= exposed + 1e-9 for c, exposed in zip(phased["t_c"], overlap["t_exposed"], strict=True))


def test_layers_are_the_innermost_modules_with_their_backward_functions(traces: Traces) -> None:
    folder = traces(1, modules=True, ending=".json.gz")
    (path,) = folder.iterdir()
    layers = read_kineto(folder).trials[0].ranks[0].layers
    assert layers is not None
    assert [one.layer for one in layers[:6]] == ["Conv2d_0", "ReLU_0", "Conv2d_1", "ReLU_1", "Flatten_0", "Linear_0"]
    forward = sum(one.t_f for one in layers if one.layer == "Conv2d_1")
    assert forward == pytest.approx(total(path, "nn.Module: Conv2d_1"), rel=1e-9)
    convolutions = sum(one.t_b for one in layers if one.layer.startswith("Conv2d"))
    expected = total(path, "autograd::engine::evaluate_function: ConvolutionBackward0")
    assert convolutions == pytest.approx(expected, rel=1e-9)


def test_an_imported_trace_is_a_study_with_tables(traces: Traces, tmp_path: Path) -> None:
    write_study(read_kineto(traces(2), {"batch_size": 16}), tmp_path / "study", "steplab import kineto")
    loaded = tables.load(tmp_path / "study")
    row = loaded.trials.iloc[0]
    assert (row["framework"], row["workers"], row["optimizer"], row["status"]) == ("torch", 2, "sgd", "ok")
    phases = row[["t_io", "t_h2d", "t_f", "t_b", "t_c", "t_u", "t_other"]].sum()
    assert phases == pytest.approx(row["t_iter_phased"])
    assert row["t_other"] >= 0
    assert np.isnan(row["observer_cost"])


def span(name: str, cat: str, ts: float, dur: float, tid: int = 1, **args: int) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "pid": 7, "tid": tid, "args": args}


def gpu_step(number: int, start: float) -> list[dict[str, Any]]:
    """A step of 100 µs: loading 10, a copy of 5, forward kernels of 20, backward 30 under NCCL 40, update 8."""
    made = [
        span(f"ProfilerStep#{number}", "user_annotation", start, 100),
        span(f"ProfilerStep#{number}", "gpu_user_annotation", start + 5, 110, tid=0),
        span("enumerate(DataLoader)#x", "user_annotation", start, 10),
        span("aten::conv2d", "cpu_op", start + 12, 4),
        span("autograd::engine::evaluate_function: A", "cpu_op", start + 20, 5, tid=2),
        span("Optimizer.step#Adam.step", "user_annotation", start + 30, 5),
    ]
    kernels = [
        ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 11, 11, 5),
        ("gemm", "kernel", 13, 18, 20),
        ("gemm", "kernel", 21, 38, 30),
        ("ncclDevKernel_AllReduce_Sum_f32", "kernel", 24, 48, 40),
        ("adam", "kernel", 31, 88, 8),
    ]
    for at, (name, cat, launch, ts, dur) in enumerate(kernels):
        link = number * 100 + at
        made.append(span("cudaLaunchKernel", "cuda_runtime", start + launch, 1, correlation=link))
        made.append(span(name, cat, start + ts, dur, tid=99, correlation=link))
    return made


def test_on_a_gpu_kernels_tell_the_time_and_launches_the_phase(tmp_path: Path) -> None:
    trace = {"traceEvents": [*gpu_step(3, 1000), *gpu_step(4, 1200)]}
    (tmp_path / "worker.json").write_text(json.dumps(trace))
    rank = read_kineto(tmp_path).trials[0].ranks[0]
    phased = {name: round(values[1] / MICRO, 6) for name, values in rank.modes["phased"].columns.items()}
    assert phased == {"t_iter": 100, "t_io": 10, "t_h2d": 5, "t_f": 20, "t_b": 30, "t_c": 20, "t_u": 8}
    overlap = {name: round(values[1] / MICRO, 6) for name, values in rank.modes["overlap"].columns.items()}
    assert overlap == {"t_iter": 100, "t_comm": 40, "t_exposed": 20}


def written(folder: Path, *steps: int, rank: int | None = None, pid: int = 1) -> None:
    said = {"traceEvents": [{**span(f"ProfilerStep#{n}", "user_annotation", 10 * n, 9), "pid": pid} for n in steps]}
    if rank is not None:
        said["distributedInfo"] = {"rank": rank, "world_size": 4}
    (folder / f"trace-{rank}-{pid}-{steps[0]}.json").write_text(json.dumps(said))


def test_only_steps_that_all_ranks_have_count_and_missing_ranks_are_named(tmp_path: Path) -> None:
    written(tmp_path, 1, 2, 3, rank=0)
    written(tmp_path, 2, 3, 4, rank=2)
    study = read_kineto(tmp_path)
    assert [len(rank.modes["native"].warmup) for rank in study.trials[0].ranks] == [2, 2]
    assert any("4 ranks" in note for note in study.notes)
    assert any("2 steps are left out" in note for note in study.notes)


def test_ranks_given_file_by_file_are_those_of_their_folder(tmp_path: Path) -> None:
    for rank in range(3):
        written(tmp_path, 1, 2, rank=rank)
    files = sorted(tmp_path.iterdir())
    assert read_kineto(files).trials == read_kineto(tmp_path).trials
    assert len(read_kineto(files[:2]).trials[0].ranks) == 2


def test_several_files_of_one_process_are_one_rank(tmp_path: Path) -> None:
    written(tmp_path, 1, 2, pid=5)
    written(tmp_path, 7, 8, pid=5)
    (rank,) = read_kineto(tmp_path).trials[0].ranks
    assert len(rank.modes["native"].warmup) == 4


def test_the_same_step_twice_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 1, 2, rank=0, pid=5)
    written(tmp_path, 2, 3, rank=0, pid=6)
    with pytest.raises(InputError, match="rank 0 has a step twice"):
        read_kineto(tmp_path)


HOSTILE = {
    "empty": b"",
    "text": b"hello",
    "pickle": pickle.dumps({"a": 1}),
    "number": b"3",
    "cut": b'{"traceEvents": [{"ph": "X", "name": "ProfilerStep#1", "ts": 1, "dur"',
    "no events": b"{}",
    "events are no list": b'{"traceEvents": 3}',
    "no steps": b'{"traceEvents": [{"ph": "X", "name": "x", "ts": 1, "dur": 1}]}',
    "odd fields": b'{"traceEvents": [{"ph": "X", "name": "ProfilerStep#1", "ts": {}, "dur": "x"}, 3, null, "a"]}',
    "negative": b'{"traceEvents": [{"ph": "X", "name": "ProfilerStep#1", "ts": 1, "dur": -1}]}',
    "deep": b'{"traceEvents": ' + b"[" * 100_000,
    "broken gzip": b"\x1f\x8b" + b"x" * 50,
    "cut gzip": gzip.compress(b'{"traceEvents": []}' * 100)[:-20],
    "not a number": b'{"traceEvents": [{"ph": "X", "name": "ProfilerStep#1", "ts": NaN, "dur": 1e999}]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(HOSTILE[name])
    with pytest.raises(InputError) as caught:
        read_kineto(tmp_path)
    assert "x.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_traces_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no trace"):
        read_kineto(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_kineto(tmp_path / "away")


def test_a_piece_beyond_all_measure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steplab.store.foreign.json_stream.MOST_PIECE", 1000)
    monkeypatch.setattr("steplab.store.foreign.json_stream.CHUNK", 100)
    (tmp_path / "x.json").write_text('{"traceEvents": [{"name": "' + "a" * 10_000 + '"}]}')
    with pytest.raises(InputError, match="not valid JSON"):
        read_trace(tmp_path / "x.json")


def test_a_trace_that_unpacks_beyond_measure_is_refused(tmp_path: Path) -> None:
    # 200 MiB of blanks in 200 KiB: no trace is packed that well.
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (200 << 20)))
    with pytest.raises(InputError, match=r"holds more than \d+ MiB"):
        read_trace(tmp_path / "x.json.gz")


@pytest.mark.parametrize("event", [b"{},", b"0,", b'{"ph":"X"},'])
def test_a_trace_of_empty_events_is_refused_early(tmp_path: Path, event: bytes) -> None:
    (tmp_path / "x.json").write_bytes(b'{"traceEvents": [' + event * 100_001)
    with pytest.raises(InputError, match="its events are empty"):
        read_trace(tmp_path / "x.json")


ODD = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({}))
NAMES = st.sampled_from(
    ["ProfilerStep#1", "ProfilerStep#2", "aten::mm", "Optimizer.step#SGD.step", "nccl:all_reduce", "c10d::allreduce_",
     "autograd::engine::evaluate_function: X", "enumerate(DataLoader)#x", "nn.Module: A_0", "Memcpy HtoD"]
)  # fmt: skip
CATEGORIES = st.sampled_from(["user_annotation", "cpu_op", "python_function", "kernel", "cuda_runtime", "gpu_memcpy"])
TIME = st.one_of(st.floats(0, 1e6), st.integers(0, 10**6), ODD)
EVENT = st.fixed_dictionaries(
    {"ph": st.just("X"), "name": st.one_of(NAMES, ODD), "cat": st.one_of(CATEGORIES, ODD), "ts": TIME, "dur": TIME},
    optional={
        "pid": ODD,
        "tid": ODD,
        "args": st.one_of(ODD, st.fixed_dictionaries({"correlation": st.integers(0, 3)})),
    },
)


@settings(max_examples=150, deadline=None)
@given(said=st.lists(st.one_of(EVENT, ODD), max_size=12))
def test_whatever_a_trace_holds_it_is_read_or_refused(
    said: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "x.json").write_text(json.dumps({"traceEvents": said, "distributedInfo": None}))
    try:
        study = read_kineto(folder)
    except InputError:
        return
    for rank in study.trials[0].ranks:
        columns = rank.modes["phased"].columns
        assert all(value >= 0 for values in columns.values() for value in values)

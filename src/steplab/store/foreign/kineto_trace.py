"""The events of one PyTorch profiler (Kineto) trace that tell of a step's time; the rest of the file is passed over.

A trace is Chrome's trace-event JSON. Kineto's complete events (ph "X") have `ts` and `dur` in microseconds. What a
span is can be told by its category and name: https://github.com/pytorch/kineto, libkineto/src/output_json.cpp, and
torch/profiler, which names its own annotations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from steplab.core.errors import InputError
from steplab.store.foreign.json_stream import pieces

STEP = re.compile(r"ProfilerStep#(\d{1,9})$")
OPTIMIZER = re.compile(r"Optimizer\.step#(\w+)")
COLLECTIVE = re.compile(r"(nccl|gloo|mpi|ucc|xccl)[:_D]|c10d::|record_param_comms", re.IGNORECASE)
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCH = ("cuda_runtime", "cuda_driver")
MOST_EVENTS = 20_000_000
MOST_TIME = 1e16  # microseconds since 1970 in the year 2286
Thread = tuple[Any, Any]


class Event(NamedTuple):
    """One span of a trace, in whole nanoseconds; `link` ties a kernel to its launch, a backward function to its op."""

    start: int
    end: int
    thread: Thread
    name: str
    link: int = -1


@dataclass
class KinetoTrace:
    """What one file says of one rank's steps."""

    path: Path
    about: dict[str, Any] = field(default_factory=dict)  # the fields beside the events
    steps: list[tuple[int, Event]] = field(default_factory=list)
    loading: list[Event] = field(default_factory=list)
    updates: list[Event] = field(default_factory=list)
    backward: list[Event] = field(default_factory=list)
    collectives: list[Event] = field(default_factory=list)
    forward: list[Event] = field(default_factory=list)  # every other operation and module
    modules: list[Event] = field(default_factory=list)
    device: list[Event] = field(default_factory=list)  # kernels and copies on a GPU
    launches: list[Event] = field(default_factory=list)

    @property
    def rank(self) -> int | None:
        """The rank, if the trace or its file's name says it."""
        stated = self.about.get("distributedInfo")
        if isinstance(stated, Mapping) and isinstance(stated.get("rank"), int) and 0 <= stated["rank"] < 1 << 20:
            return int(stated["rank"])
        match = re.search(r"rank[-_]?(\d{1,6})", self.path.name, re.IGNORECASE)
        return int(match[1]) if match else None

    @property
    def world(self) -> int | None:
        """How many ranks there were, if the trace says it."""
        stated = self.about.get("distributedInfo")
        size = stated.get("world_size") if isinstance(stated, Mapping) else None
        return size if isinstance(size, int) and 1 <= size < 1 << 20 else None

    @property
    def process(self) -> int:
        """The process that was profiled."""
        pid = self.steps[0][1].thread[0]
        return pid if isinstance(pid, int) and 0 <= pid < 1 << 31 else 0


def read_trace(path: Path) -> KinetoTrace:
    """Read one file; what is not a Kineto trace with steps is refused in one sentence."""
    trace = KinetoTrace(path)
    kept = 0
    for name, value in pieces(path, "traceEvents"):
        if name == "traceEvents":
            kept += _sort(trace, value)
            if kept > MOST_EVENTS:
                raise InputError(f"holds more than {MOST_EVENTS} events", where=str(path), hint="profile fewer steps")
        elif name in ("distributedInfo", "host_name", "baseTimeNanoseconds"):
            trace.about[name] = value
    if not trace.steps:
        what = "holds no ProfilerStep# span, so its iterations are not known"
        raise InputError(what, where=str(path), hint="call `profiler.step()` after each iteration")
    trace.steps.sort(key=lambda step: step[1].start)
    return trace


def _sort(trace: KinetoTrace, document: Any) -> int:
    """Put one event where it belongs; how many places it took."""
    event = _event(document)
    if event is None:
        return 0
    category, name = str(document.get("cat", "")).lower(), event.name
    if category in DEVICE:
        trace.device.append(event)
    elif category in LAUNCH:
        trace.launches.append(event)
    elif step := STEP.match(name):
        if category != "gpu_user_annotation":  # the GPU's picture of the same step
            trace.steps.append((int(step[1]), event))
    elif category in ("user_annotation", "cpu_op", "operator"):
        _place(trace, event).append(event)
    elif category == "python_function" and name.startswith("nn.Module: "):
        trace.modules.append(event)
    else:
        return 0
    return 1


def _place(trace: KinetoTrace, event: Event) -> list[Event]:
    name = event.name
    if name.startswith("enumerate(DataLoader)"):
        return trace.loading
    if name.startswith("Optimizer.step"):
        return trace.updates
    if name.startswith("autograd::engine::evaluate_function"):
        return trace.backward
    if COLLECTIVE.match(name):
        return trace.collectives
    return [] if name.startswith("Optimizer.zero_grad") else trace.forward


def _event(document: Any) -> Event | None:
    """A complete event with a place in time; None for all others."""
    if not isinstance(document, dict) or document.get("ph") != "X":
        return None
    start, duration = _nanoseconds(document.get("ts")), _nanoseconds(document.get("dur"))
    name = document.get("name")
    if start is None or duration is None or duration < 0 or not isinstance(name, str):
        return None
    arguments = document.get("args")
    thread = (_plain(document.get("pid")), _plain(document.get("tid")))
    return Event(start, start + duration, thread, name, _link(arguments if isinstance(arguments, dict) else {}))


def _nanoseconds(value: Any) -> int | None:
    """A time in microseconds that is one, exact to the nanosecond; older Kineto writes some of them as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = value if isinstance(value, int) else float(value)
    except ValueError:
        return None
    return round(number * 1000) if abs(number) < MOST_TIME else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str) else None


def _link(arguments: Mapping[str, Any]) -> int:
    for name in ("correlation", "Sequence number"):
        value = arguments.get(name)
        if isinstance(value, int):
            return value
    return -1


def trace_files(place: Path) -> list[Path]:
    """The trace files of a folder, or the one file that was named."""
    if place.exists() and not place.is_dir():
        return [place]
    if not place.is_dir():
        raise InputError("there is no such folder", where=str(place), hint="give the folder with the ranks' traces")
    files = sorted(path for path in place.iterdir() if path.name.endswith((".json", ".json.gz")) and path.is_file())
    if not files:
        raise InputError("holds no trace", where=str(place), hint="allowed: *.json, *.json.gz of torch.profiler")
    return files


def optimizers(trace: KinetoTrace) -> Iterator[str]:
    """The names of the optimisers that took steps."""
    for event in trace.updates:
        match = OPTIMIZER.match(event.name)
        if match:
            yield match[1].lower()

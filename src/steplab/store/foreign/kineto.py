"""Reads PyTorch profiler (Kineto) traces, one file per rank, as a study of one trial.

Every moment of a ProfilerStep# span counts once. On the CPU the order in which it is claimed is: collectives that the
computing thread itself is in, the DataLoader, the optimiser's step, the backward pass (autograd's engine, on any
thread), the forward pass (all other operations and modules before the optimiser's step), and last the collectives of
other threads, which so get their exposed part only. On a GPU the kernels tell the time and what launched them tells
the phase. What nobody claims is t_other. The union of all collectives is kept as t_comm.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from steplab.core.errors import InputError
from steplab.core.record import LayerTime, Mode, Rank
from steplab.core.trial import Level
from steplab.store.foreign.imported import EPOCH, UNKNOWN, ForeignStudy, ForeignTrial, foreign_rank, study_name
from steplab.store.foreign.kineto_trace import Event, KinetoTrace, optimizers, read_trace, trace_files
from steplab.store.foreign.spans import Spans, covers, length, minus, union, within
from steplab_worker.phases import PASSES, PHASES

TOLD = tuple(name for name in PHASES if name != "t_md")  # nothing in a trace is the division of a batch
ON_DEVICE = ("t_h2d", *PASSES)  # what kernels serve, collectives aside
NANO = 1e-9
MODULE = "nn.Module: "


def read_kineto(place: Path | Sequence[Path], constants: Mapping[str, Level] | None = None) -> ForeignStudy:
    """The traces of a folder, or given one by one, as a study; `constants` is what they do not tell (network, …)."""
    places = [place] if isinstance(place, Path) else list(place)
    by_rank = _by_rank([read_trace(path) for folder in places for path in trace_files(folder)])
    common = _common_steps(by_rank)
    ranks = tuple(_rank(rank, traces, common) for rank, traces in sorted(by_rank.items()))
    first = next(iter(by_rank.values()))[0]
    config: dict[str, Level] = {"framework": "torch", "workers": len(ranks), **(constants or {})}
    versions = {"phase_method": "profiler", "layer_method": "profiler" if ranks[0].layers else "none"}
    versions["overlap_method"] = "profiler" if "overlap" in ranks[0].modes else "none"
    known: dict[str, Level] = {"optimizer": next(optimizers(first), UNKNOWN)}
    trial = ForeignTrial(config, 0, ranks, known, versions, ranks[0].host, _started(first))
    name = study_name(places[0] if len(places) == 1 else places[0].absolute().parent)
    source = ", ".join(map(str, places))
    return ForeignStudy(name, "kineto", source, (trial,), tuple(_notes(by_rank, common, config)))


def _by_rank(traces: Sequence[KinetoTrace]) -> dict[int, list[KinetoTrace]]:
    """Traces of one rank in the order of time; without ranks in the files, each process is one."""
    if any(trace.rank is None for trace in traces):
        processes = list(dict.fromkeys((trace.about.get("host_name"), trace.process) for trace in traces))
        number = {process: at for at, process in enumerate(processes)}
        ranks = [number[trace.about.get("host_name"), trace.process] for trace in traces]
    else:
        ranks = [trace.rank or 0 for trace in traces]
    by_rank: dict[int, list[KinetoTrace]] = {}
    for rank, trace in sorted(zip(ranks, traces, strict=True), key=lambda pair: (pair[0], pair[1].steps[0][1].start)):
        by_rank.setdefault(rank, []).append(trace)
    return by_rank


def _common_steps(by_rank: Mapping[int, Sequence[KinetoTrace]]) -> frozenset[int]:
    """The numbers of the steps that every rank has, each once."""
    numbers = {}
    for rank, traces in by_rank.items():
        listed = [number for trace in traces for number, _ in trace.steps]
        if len(set(listed)) != len(listed):
            where = ", ".join(str(trace.path) for trace in traces)
            raise InputError(f"rank {rank} has a step twice", where=where, hint="give the traces of one run only")
        numbers[rank] = set(listed)
    common = frozenset(set.intersection(*numbers.values()))
    if not common:
        where = str(next(iter(by_rank.values()))[0].path.parent)
        raise InputError("the ranks have no ProfilerStep# in common", where=where, hint="give the traces of one run")
    return common


def _rank(rank: int, traces: Sequence[KinetoTrace], common: frozenset[int]) -> Rank:
    steps = [step for trace in traces for step in _steps(trace, common)]
    columns = {"t_iter": [step.seconds for step in steps]}
    columns |= {name: [step.phases[name] for step in steps] for name in TOLD}
    host = traces[0].about.get("host_name")
    foreign = foreign_rank(rank, columns, host if isinstance(host, str) else UNKNOWN, traces[0].process)
    layers = [layer for trace in traces for layer in _layers(trace, common)]
    modes = dict(foreign.modes)
    if any(trace.collectives or trace.device for trace in traces) and any(step.t_comm for step in steps):
        overlap = {"t_iter": columns["t_iter"], "t_comm": [step.t_comm for step in steps]}
        overlap["t_exposed"] = [step.t_exposed for step in steps]
        modes["overlap"] = Mode(columns=overlap, warmup=foreign.modes["native"].warmup)
    return foreign.model_copy(update={"modes": modes, "layers": layers or None})


@dataclass(frozen=True)
class Step:
    """One iteration of one rank, in seconds."""

    seconds: float
    phases: dict[str, float]
    t_comm: float
    t_exposed: float


def _steps(trace: KinetoTrace, common: frozenset[int]) -> list[Step]:
    """The steps of one trace, with their time divided."""
    finder = _Finder(trace)
    divided = _on_device if trace.device else _on_cpu
    return [divided(finder, step) for number, step in trace.steps if number in common]


class _Finder:
    """Finds the events that begin in a step, each kind sorted once."""

    def __init__(self, trace: KinetoTrace) -> None:
        kinds = ("loading", "updates", "backward", "collectives", "forward", "modules")
        self.events = {kind: sorted(getattr(trace, kind), key=lambda event: event.start) for kind in kinds}
        self.starts = {kind: [event.start for event in events] for kind, events in self.events.items()}
        launches = {event.link: event.start for event in trace.launches if event.link >= 0}
        launched = ((launches[kernel.link], kernel) for kernel in trace.device if kernel.link in launches)
        self.kernels = sorted(launched, key=lambda pair: pair[0])

    def launched(self, step: Event) -> list[tuple[int, Event]]:
        """The kernels that were launched within a step, each with that moment."""
        low = bisect.bisect_left(self.kernels, step.start, key=lambda pair: pair[0])
        return self.kernels[low : bisect.bisect_left(self.kernels, step.end, key=lambda pair: pair[0])]

    def begun(self, kind: str, step: Event) -> list[Event]:
        """The events of a kind that begin within a step."""
        low = bisect.bisect_left(self.starts[kind], step.start)
        return self.events[kind][low : bisect.bisect_left(self.starts[kind], step.end)]


def _joined(events: Iterable[Event], step: Event) -> list[tuple[float, float]]:
    return within(union((event.start, event.end) for event in events), step.start, step.end)


@dataclass(frozen=True)
class _Host:
    """What the CPU's threads do in a step, disjoint stretches."""

    blocking: Spans  # collectives that a computing thread is in
    loading: Spans
    update: Spans
    backward: Spans
    forward: Spans
    apart: Spans  # collectives on threads of their own


def _host(finder: _Finder, step: Event) -> _Host:
    """Divide a step among what the CPU's threads do; a moment belongs to the first that claims it."""
    update = _joined(finder.begun("updates", step), step)
    backward = finder.begun("backward", step)
    computing = {step.thread, *(event.thread for event in backward)}
    collectives = finder.begun("collectives", step)
    blocking = _joined((event for event in collectives if event.thread in computing), step)
    # Gloo's spans end when its thread runs again, at times long after the gradients were used: at the update at last.
    deadline = update[0][0] if update else step.end
    others = union((event.start, min(event.end, deadline)) for event in collectives if event.thread not in computing)
    loading = minus(_joined(finder.begun("loading", step), step), blocking)
    update = minus(update, union([*blocking, *loading]))
    back = minus(_joined(backward, step), union([*blocking, *loading, *update]))
    forward = [*finder.begun("forward", step), *finder.begun("modules", step)]
    fore = _joined((event for event in forward if event.thread == step.thread and event.start < deadline), step)
    first = back[0][0] if back else deadline
    fore = minus(within(fore, step.start, first), union([*blocking, *loading, *update, *back]))
    return _Host(blocking, loading, update, back, fore, others)


def _on_cpu(finder: _Finder, step: Event) -> Step:
    host = _host(finder, step)
    compute = union([*host.update, *host.backward, *host.forward])
    communication = union([*host.blocking, *host.apart])
    exposed = minus(communication, compute)
    spans = {"t_io": host.loading, "t_f": host.forward, "t_b": host.backward, "t_u": host.update}
    return _step(step, spans | {"t_c": minus(exposed, host.loading), "t_h2d": []}, communication, exposed)


def _on_device(finder: _Finder, step: Event) -> Step:
    """A step whose work is on a GPU: kernels tell the time, the moment of their launch tells the phase."""
    host = _host(finder, step)
    kinds: dict[str, list[tuple[float, float]]] = {name: [] for name in (*ON_DEVICE, "nccl")}
    for moment, kernel in finder.launched(step):
        kinds[_kind(kernel.name, moment, host)].append((kernel.start, kernel.end))
    joined = {name: union(spans) for name, spans in kinds.items()}
    communication = joined.pop("nccl")
    spans, taken = {}, list[tuple[float, float]]()
    for name in reversed(ON_DEVICE):
        spans[name] = minus(joined[name], taken)
        taken = union([*taken, *spans[name]])
    compute = union(stretch for name in PASSES for stretch in joined[name])
    exposed = minus(communication, compute)
    spans["t_c"] = minus(exposed, taken)
    spans["t_io"] = minus(host.loading, union([*taken, *communication]))
    return _step(step, spans, communication, exposed)


def _kind(kernel: str, launched: float, host: _Host) -> str:
    """What a kernel serves, by its name or by what the CPU was doing when it launched it."""
    bare = kernel.lower().replace(" ", "").replace("->", "to")
    if "htod" in bare:
        return "t_h2d"
    if bare.startswith("nccl"):
        return "nccl"
    return "t_u" if covers(host.update, launched) else "t_b" if covers(host.backward, launched) else "t_f"


def _step(step: Event, spans: Mapping[str, Spans], communication: Spans, exposed: Spans) -> Step:
    phases = {name: length(stretch) * NANO for name, stretch in spans.items()}
    return Step((step.end - step.start) * NANO, phases, length(communication) * NANO, length(exposed) * NANO)


def _layers(trace: KinetoTrace, common: frozenset[int]) -> list[LayerTime]:
    """Forward and backward time of each innermost module in each step."""
    finder = _Finder(trace)
    steps = [step for number, step in trace.steps if number in common]
    return [layer for at, step in enumerate(steps) for layer in _layers_of(finder, step, at)]


def _layers_of(finder: _Finder, step: Event, iteration: int) -> list[LayerTime]:
    modules, functions = _innermost(finder.begun("modules", step)), finder.begun("backward", step)
    if not modules:
        return []
    operations = finder.begun("forward", step)
    owner = _owners(modules, operations, functions[0].start if functions else step.end)
    forward: dict[str, float] = {}
    for module in modules:
        forward[module.name] = forward.get(module.name, 0.0) + (module.end - module.start) * NANO
    backward = dict.fromkeys(("", *forward), 0.0)
    for function in functions:
        backward[owner.get(function.link, "")] += (function.end - function.start) * NANO
    return [
        LayerTime(layer=name.removeprefix(MODULE), iteration=iteration, t_f=t_f, t_b=backward[name])
        for name, t_f in forward.items()
    ]


def _owners(modules: Sequence[Event], operations: Iterable[Event], end: float) -> dict[int, str]:
    """Which module made which backward function.

    An operation and its backward function share a sequence number; of several operations before the backward pass
    that show a number, the last one made the function.
    """
    starts = [module.start for module in modules]
    owner: dict[int, str] = {}
    for operation in operations:
        place = bisect.bisect_right(starts, operation.start) - 1
        if operation.link >= 0 and operation.start < end:
            inside = place >= 0 and operation.end <= modules[place].end
            owner[operation.link] = modules[place].name if inside else ""
    return owner


def _innermost(modules: Sequence[Event]) -> list[Event]:
    """Modules that hold no other, in the order of time."""
    return [
        module
        for at, module in enumerate(modules)
        if at + 1 == len(modules) or modules[at + 1].start >= module.end or modules[at + 1].thread != module.thread
    ]


def _started(trace: KinetoTrace) -> str:
    """When the first step began, if the trace's clock is the world's."""
    base = trace.about.get("baseTimeNanoseconds", 0)
    try:
        seconds = trace.steps[0][1].start * NANO + (base * 1e-9 if isinstance(base, int | float) else 0.0)
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return EPOCH


def _notes(
    by_rank: Mapping[int, Sequence[KinetoTrace]], common: frozenset[int], config: Mapping[str, Level]
) -> Iterable[str]:
    """What a person should know about how the traces were read."""
    world = next((trace.world for traces in by_rank.values() for trace in traces if trace.world), None)
    if world and world != len(by_rank):
        yield f"The traces tell of {world} ranks, but only {len(by_rank)} have a file here."
    different = {number for traces in by_rank.values() for trace in traces for number, _ in trace.steps} - common
    if different:
        yield f"{len(different)} steps are left out because not every rank has them."
    if "batch_size" not in config and "global_batch_size" not in config:
        yield "The batch size is not known, so there are no samples/s: give it with --set batch_size=N."

"""A rank's life: connect, say hello, take trial after trial; whatever happens becomes a message."""

from __future__ import annotations

import gc
import importlib
import os
import platform
import sys
import time
import traceback
from dataclasses import replace
from typing import Any, Dict, List, NoReturn, Optional

from steplab_worker import amx, devices, limits, sources, variables
from steplab_worker.channel import Channel
from steplab_worker.codec import ProtocolError
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.launched import launched
from steplab_worker.machine import machine
from steplab_worker.messages import (
    ClockRead,
    Close,
    Failed,
    FailedStatus,
    Hello,
    Message,
    Open,
    Opened,
    ReadClock,
    Result,
    RunTrial,
    Usage,
)
from steplab_worker.rendezvous import Rendezvous

# Read by the numerical libraries when they are first imported.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_LONGEST_TEXT = 4000  # characters of a reason or a traceback
_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "failed to allocate memory",
    "bad_alloc",
    "resource_exhausted",
)


def main(arguments: List[str]) -> None:
    """Entry point of a rank process."""
    member = launched(arguments)
    limits.die_with_parent()
    channel = Channel(member.channel, member.room)
    channel.send(Hello(member.number, os.getpid(), channel.token, machine()))
    Rank(channel).serve()


class Rank:
    """Does what the laboratory says, one order after the other."""

    def __init__(self, channel: Channel):
        self.channel, self.ambient = channel, variables.seen()
        self.adapter: Optional[Any] = None

    def serve(self) -> NoReturn:
        """Answer every order until the last one; an order that is none ends the rank, too."""
        while True:
            try:
                order = self.channel.receive()
                if isinstance(order, Close):
                    self._leave()
                self.channel.send(self._answer(order))
            except ProtocolError as error:
                self.channel.send(_failure(error))
                _exit(1)
            except BaseException as error:  # noqa: BLE001 - the worker ends here: an error is an answer
                self.channel.send(_failure(error))

    def _answer(self, order: Message) -> Message:
        if isinstance(order, ReadClock):
            return ClockRead(time.perf_counter())
        if isinstance(order, Open) and self.adapter is None:
            self.adapter = _open(order.group, Rendezvous(order.group, self.channel.ask))
            return _opened(self.adapter, self.ambient)
        if isinstance(order, RunTrial) and self.adapter is not None:
            return _trial(self.adapter, order.job, self.channel)
        raise ProtocolError("the laboratory sent %s out of turn" % type(order).__name__)

    def _leave(self) -> NoReturn:
        if self.adapter is not None:
            self.adapter.close()
        _exit(0)


def _exit(code: int) -> NoReturn:
    sys.stdout.flush()
    # A framework's exit handlers may hang or abort; what had to be said has been said.
    os._exit(code)


def _open(group: GroupJob, rendezvous: Rendezvous) -> Any:
    """The framework's adapter; an auxiliary process serves until the group ends."""
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(group.threads)
    os.environ.update(amx.keep_off(amx.state()))
    devices.choose(group.placement.device)
    sys.path.extend(group.python_path)  # last: nothing there takes the place of an installed package
    module = _adapter_module(group.framework, group.adapter_file)
    if group.role == "rank":
        adapter = module.Adapter(group, rendezvous)
        gc.freeze()  # a framework stays as long as its rank: collecting a trial's garbage need not walk through it
        return adapter
    module.serve(group, rendezvous)
    raise RuntimeError("the %s of %s ended by itself" % (group.role, group.framework))


def _adapter_module(framework: str, file: str) -> Any:
    own = "steplab_worker.adapters." + framework
    return sources.load(own, file) if file else importlib.import_module(own)


def _opened(adapter: Any, ambient: Dict[str, str]) -> Opened:
    versions = dict(adapter.versions(), python=platform.python_version())
    return Opened(versions, limits.allowed_cpus(), variables.ambient(ambient, _THREAD_VARIABLES))


def _trial(adapter: Any, job: TrialJob, channel: Channel) -> Result:
    """Run one trial; what it measured and used."""
    from steplab_worker import kinds

    limits.reset_peak_memory()
    limits.limit_memory(job.memory_limit_bytes)
    before, busy, resident = limits.used(), limits.busy_s(), limits.resident_bytes()
    try:
        session = _session(adapter, job)
        session.placement = adapter.group.placement
        try:
            measurement = kinds.module(job.kind).run(job, session, channel.ask, adapter.group.rank)
            methods = {**measurement.methods, **session.kernels()}
            measurement = replace(measurement, methods=methods, compiled=session.compiled())
            held = session.held()
        finally:
            session.close()
    finally:
        limits.limit_memory(0)
    after = limits.used()
    host_s = None if busy is None else max(0.0, (limits.busy_s() or busy) - busy)
    usage = Usage(after["cpu_s"] - before["cpu_s"], after["peak_bytes"], host_s, resident, held)
    return Result(measurement, usage)


def _session(adapter: Any, job: TrialJob) -> Any:
    """The network built; a user's own one (`module:…`, `onnx:…`) has no graph and brings its own weights."""
    from steplab_worker import networks
    from steplab_worker.weights import initial_weights

    if job.network.startswith(("module:", "onnx:")):
        return adapter.session(job, None, {})
    graph = networks.build(job.network, job.network_options, job.input_shape, job.classes, job.network_file)
    return adapter.session(job, graph, initial_weights(graph, job.seed) if adapter.computes else {})


def _failure(error: BaseException) -> Failed:
    text = str(error) if isinstance(error, ProtocolError) else "%s: %s" % (type(error).__name__, error)
    return Failed(_status(error, text.lower()), _bounded(text), _bounded(traceback.format_exc()))


def _status(error: BaseException, lowered: str) -> FailedStatus:
    if isinstance(error, MemoryError) or any(sign in lowered for sign in _OUT_OF_MEMORY):
        return "out-of-memory"
    return "unsupported" if type(error).__name__ == "Unsupported" else "failed"


def _bounded(text: str) -> str:
    """A text that fits a record: of a longer one its beginning and its end, where what went wrong stands."""
    half = _LONGEST_TEXT // 2
    return text if len(text) <= _LONGEST_TEXT else "%s … %s" % (text[:half], text[-half:])

"""A rank's life: connect, say hello, take trial after trial; whatever happens becomes a document."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import platform
import socket
import sys
import time
import traceback
from typing import Any, List

from steplab_worker import limits, sources, variables
from steplab_worker.channel import Channel, Document
from steplab_worker.job import GroupJob, TrialJob

# Read by the numerical libraries when they are first imported.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_LONGEST_TEXT = 4000  # characters of a reason or a traceback
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "bad_alloc", "resource_exhausted", "cannot allocate memory")


def main(arguments: List[str]) -> None:
    """Entry point of a rank process."""
    parser = argparse.ArgumentParser(prog="steplab_worker")
    parser.add_argument("--channel", required=True)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--rank-variable", help="where a launcher says the rank")
    parsed = parser.parse_args(arguments)
    limits.die_with_parent()
    rank = parsed.rank
    if parsed.rank_variable:
        rank = int(os.environ[parsed.rank_variable])
        _own_log(os.path.join(os.path.dirname(parsed.channel), "rank%d.log" % rank))
    channel = Channel(parsed.channel)
    greeting = {"say": "hello", "rank": rank, "pid": os.getpid(), "host": socket.gethostname()}
    channel.send(dict(greeting, token=channel.token))
    adapter, ambient = None, variables.seen()
    while True:
        order = channel.receive()
        try:
            if order["do"] == "open":
                adapter = _open(GroupJob.from_document(order["group"]))
                channel.send(dict(_opened(adapter), variables=variables.document(ambient, _THREAD_VARIABLES)))
            elif order["do"] == "clock":
                channel.send({"say": "clock", "at": time.perf_counter()})
            elif order["do"] == "trial":
                channel.send(_trial(adapter, TrialJob.from_document(order["job"]), channel))
            else:
                adapter.close()
                sys.stdout.flush()
                # A framework's exit handlers may hang or abort; what had to be said has been said.
                os._exit(0)
        except BaseException as error:  # noqa: BLE001 - the worker ends here: an error is an answer
            channel.send(_failure(error))


def _own_log(path: str) -> None:
    """Write to a log of one's own: a launcher would mix what its ranks print, and copy it in their time."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _open(group: GroupJob) -> Any:
    """The framework's adapter; an auxiliary process serves until the group ends."""
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(group.threads)
    sys.path.extend(group.python_path)  # last: nothing there takes the place of an installed package
    module = _adapter_module(group.framework, group.adapter_file)
    if group.role == "rank":
        adapter = module.Adapter(group)
        gc.freeze()  # a framework stays as long as its rank: collecting a trial's garbage need not walk through it
        return adapter
    module.serve(group)
    raise RuntimeError("the %s of %s ended by itself" % (group.role, group.framework))


def _adapter_module(framework: str, file: str) -> Any:
    own = "steplab_worker.adapters." + framework
    return sources.load(own, file) if file else importlib.import_module(own)


def _opened(adapter: Any) -> Document:
    versions = dict(adapter.versions(), python=platform.python_version())
    return {"say": "opened", "versions": versions, "cpus": limits.allowed_cpus()}


def _trial(adapter: Any, job: TrialJob, channel: Channel) -> Document:
    """Run one trial; the document that says how it went."""
    from steplab_worker import loop, training

    limits.reset_peak_memory()
    limits.limit_memory(job.memory_limit_bytes)
    before = limits.used()
    try:
        session = _session(adapter, job)
        try:
            if job.train is not None:
                result = training.train(job, session, channel.ask, adapter.group.rank)
            else:
                result = loop.measure(job, session, channel.ask)
        finally:
            session.close()
    finally:
        limits.limit_memory(0)
    after = limits.used()
    usage = {"cpu_s": after["cpu_s"] - before["cpu_s"], "peak_bytes": after["peak_bytes"]}
    return dict(result, say="done", usage=usage)


def _session(adapter: Any, job: TrialJob) -> Any:
    """The network built; a user's own one (`module:…`) has no graph and brings its own weights."""
    from steplab_worker import networks
    from steplab_worker.weights import initial_weights

    if job.network.startswith("module:"):
        return adapter.session(job, None, {})
    graph = networks.build(job.network, job.network_options, job.input_shape, job.classes, job.network_file)
    return adapter.session(job, graph, initial_weights(graph, job.seed) if adapter.computes else {})


def _failure(error: BaseException) -> Document:
    text = _bounded("%s: %s" % (type(error).__name__, error))
    lowered = text.lower()
    if isinstance(error, MemoryError) or any(sign in lowered for sign in _OUT_OF_MEMORY):
        status = "out-of-memory"
    else:
        status = "unsupported" if type(error).__name__ == "Unsupported" else "failed"
    return {"say": "failed", "status": status, "reason": text, "traceback": _bounded(traceback.format_exc())}


def _bounded(text: str) -> str:
    """A text that fits a record: of a longer one its beginning and its end, where what went wrong stands."""
    half = _LONGEST_TEXT // 2
    return text if len(text) <= _LONGEST_TEXT else "%s … %s" % (text[:half], text[-half:])

"""A rank that does not keep to the protocol: a real one, of the virtual framework, whose lines are spoilt in a trial.

The trial's batch size says how. It takes the place of a framework's interpreter, so its arguments are the worker's.
"""

import dataclasses
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from steplab_worker import rank
from steplab_worker.adapters import synthetic
from steplab_worker.channel import Channel
from steplab_worker.messages import PROTOCOL, Block, Hello, Measurement, ModeTimes, Result, Usage, encode

JOBS = []
OPTIONS = {name: said["default"] for name, said in synthetic.DECLARATION["factors"].items()}
EARLY = Result(Measurement({"native": ModeTimes({"t_iter": [0.5]}, [False])}, 0.0), Usage(0.0, 0.0))


def half(connection, line):
    """Half a line, and nothing ever after."""
    connection.sendall(line[:20])
    time.sleep(1000)


def half_and_end(connection, line):
    """Half a line, and the end."""
    connection.sendall(line[:20])
    os._exit(3)


WAYS = {
    1: lambda connection, line: connection.sendall(line),
    2: lambda connection, line: connection.sendall(b"\x00\xff nonsense\n"),
    3: lambda connection, line: connection.sendall(line * 2),
    4: half,
    5: half_and_end,
    6: lambda connection, line: connection.sendall(line.replace(b'"t_iter":[]', b'"t_iter":"none"')),
    7: lambda connection, line: connection.sendall(encode(EARLY)),
    8: lambda connection, line: connection.sendall(encode(Block("native", [])) * 100_000),
    9: lambda connection, line: connection.sendall(b'{"message":"Hello","protocol":%d}\n' % PROTOCOL),
}


def send(channel, message):
    """In place of the channel's own."""
    if isinstance(message, Hello) and "ROGUE_PROTOCOL" in os.environ:
        message = dataclasses.replace(message, protocol=int(os.environ["ROGUE_PROTOCOL"]))
    WAYS[JOBS[-1].batch_size if JOBS else 1](channel._socket, encode(message))


def opened(group, *more):
    """In place of opening the adapter: whatever the framework, the virtual one."""
    return rank_open(dataclasses.replace(group, framework="synthetic"), *more)


def trial(adapter, job, channel):
    """In place of a trial: one of the virtual framework."""
    JOBS.append(job)
    return rank_trial(adapter, dataclasses.replace(job, options=OPTIONS), channel)


if __name__ == "__main__":
    rank_open, rank_trial = rank._open, rank._trial
    Channel.send, rank._open, rank._trial = send, opened, trial
    rank.main(sys.argv[2:])  # after the folder of the worker

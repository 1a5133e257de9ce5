"""Runs on another host, sent there by a launcher: it keeps what runs there for a group, and surely ends it.

It is alone there, so it imports nothing of ours. Its standard input has a document on one line, then the worker package
as an archive; after that, lines `signal NUMBER`. When the input ends, for whatever reason, the laboratory is gone: what
was started is killed and its folder removed. The token comes here and is on no command line.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from typing import Any, BinaryIO, Dict, List, Optional, Tuple

NO_PYTHON, NOT_STARTED, OUT_OF_MEMORY = 96, 97, 98  # exit codes
LOOK_S = 5.0  # between looks at the kernel's count of processes that it killed for lack of memory
# Where a shell line finds what is only known here: the interpreter, the worker's program, the group's folder.
PYTHON, PROGRAM, ROOM = "STEPLAB_KEPT_PYTHON", "STEPLAB_KEPT_PROGRAM", "STEPLAB_KEPT_ROOM"
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # by whoever rules this host, such as Slurm


def main(stdin: BinaryIO) -> int:
    """Do what the document says."""
    document = json.loads(stdin.readline().decode())
    if document["task"] == "look":
        print(json.dumps(look(document)))
        return 0
    return run(document, stdin)


def look(document: Dict[str, Any]) -> Dict[str, Any]:
    """What this host is, how it is reached, and which interpreters and programs it lacks."""
    client, _, server, _ = os.environ["SSH_CONNECTION"].split()
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    missing = [name for name, paths in document["pythons"].items() if python(paths) is None]
    lacking = [name for name in document["programs"] if shutil.which(name) is None]
    return {
        "host": socket.gethostname(),
        "boot": boot,
        "address": server,
        "seen": client,
        "missing": missing,
        "lacking": lacking,
    }


def python(paths: List[str]) -> Optional[str]:
    """The first interpreter that is here: at the same place as the laboratory's, or in this user's own folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = os.environ.get("STEPLAB_HOME") or os.path.join(cache, "steplab")
    places = [os.path.join(home, path) for path in paths]  # an absolute one stays what it is
    return next((place for place in places if os.access(place, os.X_OK)), None)


def run(document: Dict[str, Any], stdin: BinaryIO) -> int:
    """Start the shell line and stay with it; its exit code, a signal's as a shell tells it."""
    interpreter = python(document["python"])
    if interpreter is None:
        print("%s: there is no interpreter %s" % (socket.gethostname(), document["python"][0]), file=sys.stderr)
        return NO_PYTHON
    room = tempfile.mkdtemp(prefix="steplab-room-")
    try:
        lock = os.open(room, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)  # so that nobody takes it for a dead one's and sweeps it
        return attend(start(document, stdin, interpreter, room), stdin)
    except OSError as error:
        print("%s cannot be started: %s" % (interpreter, error), file=sys.stderr)
        return NOT_STARTED
    finally:
        shutil.rmtree(room, ignore_errors=True)


def start(document: Dict[str, Any], stdin: BinaryIO, interpreter: str, room: str) -> "subprocess.Popen[bytes]":
    """The process of the shell line, in a session of its own."""
    os.mkdir(os.path.join(room, "tmp"))
    descriptor = os.open(os.path.join(room, "token"), os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(document["token"])
    program = document["program"]
    if document["archive"]:
        program = os.path.join(room, "steplab_worker")
        zipfile.ZipFile(io.BytesIO(stdin.read(document["archive"]))).extractall(program)
    variables = dict(os.environ, TMPDIR=os.path.join(room, "tmp"), **document["variables"])
    variables.update({PYTHON: interpreter, PROGRAM: program, ROOM: room})
    command = ["sh", "-c", document["line"]]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, env=variables, start_new_session=True, preexec_fn=die_with_parent
    )


def die_with_parent() -> None:
    """Ask the kernel to kill what is started when its keeper dies, before it can ask for that itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def attend(kept: "subprocess.Popen[bytes]", stdin: BinaryIO) -> int:
    """Wait for its end; pass signals on, and kill it when the laboratory is gone."""
    for number in PASSED_ON:
        signal.signal(number, lambda got, _frame: send(kept, got))
    threading.Thread(target=obey, args=(kept, stdin), daemon=True).start()
    try:
        code, lack = wait(kept)
    finally:
        send(kept, signal.SIGKILL)
    if code == -signal.SIGKILL and lack:
        return OUT_OF_MEMORY
    return code if code >= 0 else 128 - code


def wait(kept: "subprocess.Popen[bytes]") -> Tuple[int, bool]:
    """Its exit code, and whether the kernel has killed somebody for lack of memory just then."""
    before = seen = oom_kills()
    while True:
        try:
            return kept.wait(LOOK_S), oom_kills() > before
        except subprocess.TimeoutExpired:
            before, seen = seen, oom_kills()


def oom_kills() -> int:
    """How many processes of this host the kernel has killed for lack of memory, be it a control group's or its own."""
    with contextlib.suppress(OSError, ValueError), open("/proc/vmstat") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    return 0


def obey(kept: "subprocess.Popen[bytes]", stdin: BinaryIO) -> None:
    """Do what further lines say until there are none."""
    for line in stdin:
        send(kept, int(line.split()[1]))
    send(kept, signal.SIGKILL)


def send(kept: "subprocess.Popen[bytes]", number: int) -> None:
    """Signal its whole session, even if the first process is gone."""
    with contextlib.suppress(OSError):
        os.killpg(kept.pid, number)


if __name__ in ("__main__", "steplab_keeper"):
    ended = main(sys.stdin.buffer)
    sys.stdout.flush()
    os._exit(ended)  # a thread may still read the input

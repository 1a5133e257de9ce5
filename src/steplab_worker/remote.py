"""Runs on another host, sent there over ssh: it starts one member, ends it surely, and looks whether it can.

It is alone there, so it imports nothing of ours. Its standard input has a document on one line,
then the worker package as an archive; after that, lines `signal NUMBER`. When the input ends, for whatever reason, the
laboratory is gone: the member is killed and its folder removed. The token comes here and is on no command line.
"""

from __future__ import annotations

import contextlib
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
from typing import Any, BinaryIO, Dict, List, Optional

NO_PYTHON, NOT_STARTED = 96, 97  # exit codes


def main(stdin: BinaryIO) -> int:
    """Do what the document says."""
    said = json.loads(stdin.readline().decode())
    if said["task"] == "look":
        print(json.dumps(look(said)))
        return 0
    return run(said, stdin)


def look(said: Dict[str, Any]) -> Dict[str, Any]:
    """What this host is, how it is reached, and which interpreters it lacks."""
    client, _, server, _ = os.environ["SSH_CONNECTION"].split()
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    missing = [name for name, paths in said["pythons"].items() if python(paths) is None]
    return {"host": socket.gethostname(), "boot": boot, "address": server, "seen": client, "missing": missing}


def python(paths: List[str]) -> Optional[str]:
    """The first interpreter that is here: at the same place as the laboratory's, or in this user's own folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = os.environ.get("STEPLAB_HOME") or os.path.join(cache, "steplab")
    places = [os.path.join(home, path) for path in paths]  # an absolute one stays what it is
    return next((place for place in places if os.access(place, os.X_OK)), None)


def run(said: Dict[str, Any], stdin: BinaryIO) -> int:
    """Start the member and stay with it; its exit code, a signal's as a shell tells it."""
    interpreter = python(said["python"])
    if interpreter is None:
        print("%s: there is no interpreter %s" % (socket.gethostname(), said["python"][0]), file=sys.stderr)
        return NO_PYTHON
    room = tempfile.mkdtemp(prefix="steplab-room-")
    try:
        lock = os.open(room, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)  # so that nobody takes it for a dead one's and sweeps it
        return attend(start(said, stdin, interpreter, room), stdin)
    except OSError as error:
        print("%s cannot be started: %s" % (interpreter, error), file=sys.stderr)
        return NOT_STARTED
    finally:
        shutil.rmtree(room, ignore_errors=True)


def start(said: Dict[str, Any], stdin: BinaryIO, interpreter: str, room: str) -> "subprocess.Popen[bytes]":
    """The member's process, in a session of its own."""
    os.mkdir(os.path.join(room, "tmp"))
    descriptor = os.open(os.path.join(room, "token"), os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(said["token"])
    program = said["program"]
    if said["archive"]:
        program = os.path.join(room, "steplab_worker")
        zipfile.ZipFile(io.BytesIO(stdin.read(said["archive"]))).extractall(program)
    command = [
        interpreter,
        *filter(None, [program]),
        "--channel",
        said["channel"],
        "--room",
        room,
        "--rank",
        str(said["number"]),
    ]
    variables = dict(os.environ, TMPDIR=os.path.join(room, "tmp"), **said["variables"])
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=variables, start_new_session=True)


def attend(member: "subprocess.Popen[bytes]", stdin: BinaryIO) -> int:
    """Wait for the member's end; pass signals on, and kill it when the laboratory is gone."""
    threading.Thread(target=obey, args=(member, stdin), daemon=True).start()
    try:
        code = member.wait()
    finally:
        send(member, signal.SIGKILL)
    return code if code >= 0 else 128 - code


def obey(member: "subprocess.Popen[bytes]", stdin: BinaryIO) -> None:
    """Do what further lines say until there are none."""
    for line in stdin:
        send(member, int(line.split()[1]))
    send(member, signal.SIGKILL)


def send(member: "subprocess.Popen[bytes]", number: int) -> None:
    """Signal the member's whole session, even if the member itself is gone."""
    with contextlib.suppress(OSError):
        os.killpg(member.pid, number)


if __name__ in ("__main__", "steplab_remote"):
    ended = main(sys.stdin.buffer)
    sys.stdout.flush()
    os._exit(ended)  # a thread may still read the input

"""A member of a group for the launchers' contract: it does what the variable DEEDS says for its number."""

import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from steplab_worker.launched import launched


def note(*words: object) -> None:
    """A line in this member's log."""
    print(*words, flush=True)


def main() -> None:
    """Say who this is, then do the deed."""
    member = launched(sys.argv[1:])
    deed, _, argument = json.loads(os.environ["DEEDS"]).get(str(member.number), "wait").partition(":")
    signal.signal(signal.SIGUSR1, lambda *_: note("signalled"))
    if deed == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("member", member.number, member.channel, Path("/proc/self/ns/net").readlink())
    if deed == "exit":
        sys.exit(int(argument))
    if deed == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        time.sleep(0.05)


if __name__ == "__main__":
    main()

"""Damaged files and texts through every reader: a sentence or a result, never a traceback, never slow, never large.

Pass marks: of at least 20,000 inputs none ends in anything but a result or a SteplabError, none takes more than 10 s of
CPU time, in none does the process hold more than 1 GB. Inputs follow from the seed, so each can be made again:
`fuzz.py --reader csv --only 17`. Those that once failed are kept in tests/data/damaged and come first.
`--inputs N` and `--seconds S` bound the work.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _fuzz_readers import READERS, Reader
from _mutations import mutated

MOST_S, MOST_BYTES = 10.0, 1 << 30
HANGS_S, STARTS_S = 90.0, 600.0  # of waiting, on a busy machine
KEPT = Path(__file__).parents[1] / "tests" / "data" / "damaged"


def inputs(reader: Reader, seed: int) -> Iterator[tuple[str, bytes]]:
    """The inputs of a reader without end: kept and sound ones, those that unpack to giants, then damaged ones."""
    yield from itertools.chain(known(reader), bombs(reader), damaged(reader, seed))


def known(reader: Reader) -> Iterator[tuple[str, bytes]]:
    """Inputs that once failed, then sound ones."""
    for path in sorted(KEPT.glob(f"{reader.name.replace(':', '-')}~*")):
        yield path.name, path.read_bytes()
    yield from ((f"sound {number}", content) for number, content in enumerate(reader.seeds()))


def bombs(reader: Reader) -> Iterator[tuple[str, bytes]]:
    """Small files that unpack to giants."""
    yield from ((f"bomb {number}", content) for number, content in enumerate(reader.bombs()))


def damaged(reader: Reader, seed: int) -> Iterator[tuple[str, bytes]]:
    """Damaged inputs without end."""
    seeds = reader.seeds()
    for number in itertools.count():
        rng = random.Random(f"{seed}:{reader.name}:{number}")
        yield str(number), mutated(rng.choice(seeds), seeds, rng)


@dataclass
class Tally:
    """What came of a reader's inputs."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    seconds: float = 0.0
    bytes: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list)

    def add(self, said: dict[str, Any], apart: bool) -> None:
        """Count one input."""
        self.inputs += 1
        self.seconds, self.bytes = max(self.seconds, said["seconds"]), max(self.bytes, said["bytes"])
        fault = said["fault"]
        if said["seconds"] > MOST_S:
            fault = fault or f"took {said['seconds']:.1f} s"
        if said["bytes"] > MOST_BYTES and not apart:
            fault = fault or f"took {said['bytes'] >> 20} MB"
        self.refused += said["refused"] and not fault
        self.read += not said["refused"] and not fault
        if fault:
            self.faults.append(said | {"fault": fault})


def serve(reader: Reader, seed: int, first: int, last: int) -> None:
    """Read inputs in this process; a line when each begins and when it has ended."""
    warnings.simplefilter("ignore")
    for place, (name, content) in enumerate(inputs(reader, seed)):
        if place >= last:
            return
        if place >= first:
            print(json.dumps({"begin": place, "name": name}), flush=True)
            print(json.dumps(tried(reader, content) | {"place": place, "name": name}), flush=True)


def tried(reader: Reader, content: bytes) -> dict[str, Any]:
    """Read one input in this process: whether it was refused, what is wrong with that, and what it took."""
    from steplab.core.errors import SteplabError

    with tempfile.TemporaryDirectory(dir=os.environ["FUZZ_ROOT"]) as place:
        path = Path(place) / f"input{reader.suffix}"
        path.write_bytes(content)
        _forget_peak()
        began, refused, fault = time.process_time(), False, ""
        try:
            reader.read(path)
        except SteplabError as error:
            refused, fault = True, _wrong_sentence(str(error))
        except Exception:  # noqa: BLE001 - this is what is looked for
            fault = traceback.format_exc()[-2000:]
        return {"refused": refused, "fault": fault, "seconds": time.process_time() - began, "bytes": _peak()}


def _wrong_sentence(text: str) -> str:
    """A sentence is short and on one line."""
    return f"not one sentence: {text[:300]!r}" if "\n" in text.strip() or len(text) > 5000 else ""


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(lines["VmHWM"].split()[0]) * 1024


def run(reader: Reader, seed: int, count: int, deadline: float, only: int | None) -> Tally:
    """Give a reader its inputs; a process that hangs or dies is replaced and the input is a fault."""
    tally, place = Tally(), 0 if only is None else only
    last = count if only is None else only + 1
    while place < last and time.monotonic() < deadline:
        place = _served(reader, seed, place, last, deadline, tally)
    return tally


def _served(reader: Reader, seed: int, first: int, last: int, deadline: float, tally: Tally) -> int:
    """Let one process read inputs from the first on; where the next one begins."""
    command = [sys.executable, __file__, "--serve", reader.name, "--seed", str(seed), "--first", str(first)]
    process = subprocess.Popen(
        [*command, "--last", str(last)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: [*map(lines.put, process.stdout or ()), lines.put("")], daemon=True).start()
    threading.Thread(target=lambda: process.stderr and process.stderr.read(), daemon=True).start()
    place, begun = first, None
    try:
        while time.monotonic() < deadline:
            try:
                line = lines.get(timeout=HANGS_S if begun else STARTS_S)
            except queue.Empty:
                tally.add(_lost(begun, f"no answer within {HANGS_S:g} s"), reader.apart)
                return place + 1
            if not line:
                code = process.wait()
                if begun is None and code == 0:
                    return last
                fault = "" if reader.apart and code < 0 else f"ended with code {code}"
                tally.add(_lost(begun, fault), reader.apart)
                return place + 1 if begun is not None else last
            said = json.loads(line)
            if "begin" in said:
                place, begun = said["begin"], said
            else:
                begun = None
                place = said["place"] + 1
                tally.add(said, reader.apart)
        return last
    finally:
        process.kill()
        process.wait()


def _lost(begun: dict[str, Any] | None, fault: str) -> dict[str, Any]:
    return {"refused": True, "fault": fault, "seconds": 0.0, "bytes": 0, **(begun or {"name": "?", "begin": -1})}


def main() -> int:
    """Run all readers, print a line for each and every fault; exit code 1 if there is any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=21_000, help="of all readers together")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", choices=[reader.name for reader in READERS])
    parser.add_argument("--only", type=int, help="the place of one input")
    parser.add_argument("--save", type=Path, help="a folder for the inputs that fail")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        serve(next(one for one in READERS if one.name == asked.serve), asked.seed, asked.first, asked.last)
        return 0
    with tempfile.TemporaryDirectory(prefix="steplab-fuzz-") as root:
        os.environ["FUZZ_ROOT"] = root
        return campaign(asked)


def campaign(asked: argparse.Namespace) -> int:
    """All readers, one after the other."""
    chosen = [reader for reader in READERS if asked.reader in (None, reader.name)]
    deadline, each = time.monotonic() + asked.seconds, -(-asked.inputs // len(chosen))
    total = faults = 0
    for reader in chosen:
        tally = run(reader, asked.seed, each, deadline, asked.only)
        total, faults = total + tally.inputs, faults + len(tally.faults)
        figures = f"{tally.read:5} read {tally.refused:5} refused {len(tally.faults):3} faults"
        print(f"{reader.name:28} {figures}  at most {tally.seconds:5.2f} s {tally.bytes >> 20:5} MB", flush=True)
        for fault in tally.faults:
            print(f"  {fault['name']} (place {fault.get('place', fault.get('begin'))}): {fault['fault']}", flush=True)
            _save(asked.save, reader, fault, asked.seed)
    print(f"{total} inputs, {faults} faults, seed {asked.seed}")
    return 1 if faults else 0


def _save(folder: Path | None, reader: Reader, fault: dict[str, Any], seed: int) -> None:
    if folder is None:
        return
    place = fault.get("place", fault.get("begin"))
    content = next(content for at, (_, content) in enumerate(inputs(reader, seed)) if at == place)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{reader.name.replace(':', '-')}~{seed}-{place}{reader.suffix}").write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())

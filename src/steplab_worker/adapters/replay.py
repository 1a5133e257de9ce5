"""The replay framework: plays back the trials that a study folder holds, on a virtual clock.

For rehearsing changes of a study, an analysis or a report on real measurements without running them again: the trial
whose factors match (all but `framework`, `recording` and `of`) gives its raw times once more.
"""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from steplab_worker import adapter as base
from steplab_worker.graph import Graph
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.rendezvous import Rendezvous

DECLARATION = {
    "title": "replay (recorded trials)",
    "pins": [],
    "reads_data": False,
    "kinds": ["step", "infer"],
    "strategies": ["sync", "accumulate"],
    "layers": "all",
    "factors": {
        "recording": {"default": "", "help": "the study folder that holds the recorded trials"},
        "of": {"default": "torch", "help": "the framework of the recorded trials"},
    },
}
OWN_FACTORS = ("framework", "recording", "of")


class NoRecording(Exception):
    """No recorded trial answers to these factors."""


def _key(config: Dict[str, Any], replicate: int) -> str:
    rest = {name: value for name, value in config.items() if name not in OWN_FACTORS}
    return json.dumps([rest, replicate], sort_keys=True)


def index(folder: str, framework: str) -> Dict[str, str]:
    """The recorded trials of a framework: their factors -> the file."""
    records = os.path.join(folder, "records")
    if os.path.islink(records) or not os.path.isdir(records):
        raise NoRecording("%s holds no records" % folder)
    paths = {}
    for name in sorted(os.listdir(records)):
        path = os.path.join(records, name)
        # What is no regular file there, or has another name, is no record: it may be a stranger's.
        regular = os.path.isfile(path) and not os.path.islink(path)
        if regular and re.match(r"[0-9a-f]{16}\.json$", name):
            with open(path, encoding="utf-8") as file:
                record = json.load(file)
            if record["config"].get("framework") == framework:
                paths[_key(record["config"], record["replicate"])] = path
    return paths


class Tape:
    """The recorded iterations of one rank in one mode; past the end the measured ones start again."""

    def __init__(self, recorded: Dict[str, Any]):
        self.columns, self.warmup = recorded["columns"], recorded["warmup"]
        measured = [i for i, warm in enumerate(self.warmup) if not warm]
        self.order = list(range(len(self.warmup))) if measured else []
        self.again = measured
        self.position = -1

    def advance(self) -> None:
        """On to the next iteration."""
        self.position += 1

    def __getitem__(self, column: str) -> float:
        if self.position < len(self.order):
            return self.columns[column][self.order[self.position]]
        return self.columns[column][self.again[(self.position - len(self.order)) % len(self.again)]]


class Session(base.Session):
    """A recorded trial of one rank."""

    def __init__(self, record: Dict[str, Any], rank: int):
        ranks = {rank_record["rank"]: rank_record for rank_record in record["ranks"]}
        if record["status"] != "ok" or rank not in ranks:
            raise NoRecording("the recorded trial ended as %s: %s" % (record["status"], record["reason"]))
        self.recorded = ranks[rank]
        self.tapes = {mode: Tape(recorded) for mode, recorded in self.recorded["modes"].items()}
        self.layer_method = record["versions"].get("layer_method", "hooks")
        self.overlap_method = "hook" if "overlap" in self.tapes else "none"
        self.now = 0.0
        self.tape: Optional[Tape] = None

    def clock(self) -> float:
        """Virtual seconds."""
        return self.now

    def enter(self, mode: str) -> None:
        """Put in the tape of that mode."""
        if mode not in self.tapes:
            raise NoRecording("the recorded trial has no %s times" % mode)
        self.tape = self.tapes[mode]

    def source(self) -> base.Source:
        """A source that moves the tape on, and takes the recorded t_io where there is one."""
        return _Source(self)

    def begin(self) -> None:
        """The next recorded iteration, and its recorded t_md."""
        self.tape.advance()
        self.play("t_md")

    def play(self, column: str) -> None:
        """Let a recorded time pass; a column that was not recorded takes none."""
        self.now += self.tape[column] if column in self.tape.columns else 0.0

    def step(self, batch: Any, last: bool) -> None:
        """The recorded native iteration."""
        self.play("t_iter")

    def communication(self) -> Tuple[float, float]:
        """The recorded communication."""
        return self.tape["t_comm"], self.tape["t_exposed"]

    def infer(self) -> None:
        """The recorded inference; t_iter where loading was not recorded apart."""
        self.play("t_f" if "t_f" in self.tape.columns else "t_iter")

    def load(self, batch: Any) -> None:
        """The recorded t_h2d."""
        self.play("t_h2d")

    def forward(self) -> None:
        """The recorded t_f."""
        self.play("t_f")

    def backward(self) -> None:
        """The recorded t_b."""
        self.play("t_b")

    def wait(self) -> None:
        """The recorded waiting."""
        self.play("t_wait")

    def exchange(self) -> None:
        """The recorded exchange."""
        self.play("t_move")

    def update(self) -> None:
        """The recorded t_u."""
        self.play("t_u")

    def layer_times(self, batch: Any) -> Optional[Dict[str, Dict[str, float]]]:
        """The recorded layer times of the first such iteration."""
        rows: List[Dict[str, Any]] = self.recorded.get("layers") or []
        return {row["layer"]: {"t_f": row["t_f"], "t_b": row["t_b"]} for row in rows if row["iteration"] == 0} or None

    def loss(self) -> float:
        """The recorded loss; NaN where none is known."""
        return math.nan if self.recorded["loss"] is None else self.recorded["loss"]


class _Source(base.Source):
    def __init__(self, session: Session):
        self.session, self.divided = session, False

    def divide(self) -> None:
        if not self.divided:
            self.session.begin()
            self.divided = True

    def next(self) -> None:
        self.divide()
        self.divided = False
        self.session.play("t_io")


class Adapter(base.Adapter):
    """The replay framework in one rank."""

    computes = False

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        super().__init__(group, rendezvous)
        self.indexes: Dict[Tuple[str, str], Dict[str, str]] = {}

    def versions(self) -> Dict[str, str]:
        """The format's version."""
        return dict(super().versions(), replay="1", device="virtual")

    def session(self, job: TrialJob, graph: Graph, weights: Any) -> Session:
        """The recorded trial that matches the job's factors."""
        where = (job.options["recording"], job.options["of"])
        if where not in self.indexes:
            self.indexes[where] = index(*where)
        path = self.indexes[where].get(_key(job.config, job.replicate))
        if path is None:
            raise NoRecording("%s holds no %s trial with these factors" % where)
        with open(path, encoding="utf-8") as file:
            return Session(json.load(file), self.group.rank)

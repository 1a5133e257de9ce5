"""A further kind of trials is one file on each side: `burst`, inferences in a row, in a copy of the tree."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

SRC = Path(__file__).parents[2] / "src"
LABORATORY = '''
    """Trials of kind `burst`: several inferences of one batch."""

    from steplab.core.measurement import Section
    from steplab.kinds.base import Table, TrialKind


    class Burst(Section):
        """[burst]: how many inferences."""

        size: int = 3


    class BurstKind(TrialKind):
        name = "burst"
        summary = "several inferences"
        ability = "infer"
        learns = False
        fields = Burst
        starter = "[burst]" + chr(10) + "size = 4" + chr(10)
        columns = ("fastest_s",)
        tables = {"peaks": Table({"rank": int, "peak_bytes": float}, lambda record: record.ranks)}

        @classmethod
        def row(cls, record):
            return {"fastest_s": min(min(rank.modes["native"].columns["t_iter"]) for rank in record.ranks)}

        def job_part(self, resolved, samples, checkpoints):
            return {"size": self.section.size}


    KIND = BurstKind
'''
WORKER = '''
    """Trials of kind `burst`."""

    from steplab_worker.loop import TimedBlock, run_mode
    from steplab_worker.messages import Measurement


    def run(job, session, ask, rank):
        source = session.source()
        try:
            return Measurement({"native": run_mode("native", Bursts(session, source, job), ask)}, session.loss())
        finally:
            source.close()


    class Bursts(TimedBlock):
        def __init__(self, session, source, job):
            super().__init__(session, source)
            self.size = job.own["size"]

        def __call__(self, iterations):
            return {"t_iter": [self.burst() for _ in range(iterations)]}

        def burst(self):
            self.session.load(self.source.next())
            start = self.session.clock()
            for _ in range(self.size):
                self.session.infer()
            return self.session.clock() - start
'''
STUDY = """
[study]
name = "bursts"
kind = "burst"
[factors]
framework = ["synthetic"]
workers = [2]
compute_s = 0.3
sample_s = 0.0
noise = 0.0
[burst]
size = 5
[design]
replicates = 1
[measure]
iterations = 4
"""
Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def steplab(tmp_path: Path) -> Call:
    """The command of a copy of the tree that has the kind."""
    for package, text in (("steplab", LABORATORY), ("steplab_worker", WORKER)):
        shutil.copytree(SRC / package, tmp_path / "src" / package, ignore=shutil.ignore_patterns("__pycache__"))
        (tmp_path / "src" / package / "kinds" / "burst.py").write_text(dedent(text).lstrip())
    variables = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": "1"}

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "steplab", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    return call


def test_a_further_kind_is_declared_run_and_tabled(tmp_path: Path, steplab: Call) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    ran = steplab("run", "study.toml", "--out", "out", "--json")
    assert (ran.returncode, json.loads(ran.stdout)["ok"]) == (0, 1), ran.stderr
    assert steplab("export", "out", "--table", "trials", "--to", "trials.csv").returncode == 0
    (row,) = csv.DictReader((tmp_path / "trials.csv").read_text().splitlines())
    # A third of compute_s is the forward pass.
    assert (row["kind"], float(row["fastest_s"])) == (
        "burst",
        pytest.approx(5 * 0.1),
    )
    assert steplab("export", "out", "--table", "peaks", "--to", "peaks.csv").returncode == 0
    assert [one["rank"] for one in csv.DictReader((tmp_path / "peaks.csv").read_text().splitlines())] == ["0", "1"]


def test_a_further_kind_has_a_starter_and_its_mistakes_are_sentences(tmp_path: Path, steplab: Call) -> None:
    assert steplab("init", "new", "--kind", "burst", "--framework", "synthetic").returncode == 0
    assert "[burst]\nsize = 4\n" in (tmp_path / "new/study.toml").read_text()
    (tmp_path / "wrong.toml").write_text(STUDY.replace("size = 5", 'size = "many"'))
    assert "wrong.toml, line 12, burst.size" in steplab("run", "wrong.toml").stderr
    (tmp_path / "wrong.toml").write_text(STUDY.replace('kind = "burst"', 'kind = "infer"'))
    assert "the section [burst] does not go with kind 'infer'" in steplab("run", "wrong.toml").stderr

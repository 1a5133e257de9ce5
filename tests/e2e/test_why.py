"""`analyze --why` on real PyTorch ranks, on a virtual clock: the cause made dominant is named, with its seconds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

STEPLAB = Path(sys.executable).with_name("steplab")
LOST_S = 0.06
# What makes each cause dominant takes LOST_S longer as soon as there are several ranks.
NETWORKS = f"""
import virtual_clock as clock
import torch.distributed as dist
from torch import nn
from steplab_worker import loader

LOST_S = {LOST_S}
of_trial = [""]  # the network: ranks stay warm from one to the next
following, average = loader.Loader.next, dist.all_reduce


def tired(self):
    clock.nap(LOST_S * (clock.several() and of_trial[0] == "slow_loader"))
    return following(self)


def slowly(tensor, *given, **more):
    # In phased mode ranks exchange their gradients by hand; in native mode DDP does it.
    clock.nap(LOST_S * (tensor.numel() > 1 and of_trial[0] == "much_to_send"))
    return average(tensor, *given, **more)


loader.Loader.next, dist.all_reduce = tired, slowly


def network(name, seconds):
    of_trial[0], clock.exchange_s[0] = name, LOST_S * (name == "much_to_send")
    return nn.Sequential(nn.Flatten(), clock.napping(nn.Linear, seconds)(784, 10))


def usual(rows):
    return 0.01, 0.02


def slow_rank():
    last = clock.several() and dist.get_rank() == dist.get_world_size() - 1
    return network("slow_rank", lambda rows: (0.01 + LOST_S * last, 0.02))


def slow_loader():
    return network("slow_loader", usual)


def much_to_send():
    return network("much_to_send", usual)


def much_to_compute():
    return network("much_to_compute", lambda rows: (0.01, 0.02 + LOST_S * clock.several()))
"""
# The cause that each network makes dominant.
CAUSES = {
    "slow_rank": "waiting", "slow_loader": "loader", "much_to_send": "communication", "much_to_compute": "contention",
}  # fmt: skip


def asked(room: Path, networks: Iterable[str], factors: str) -> list[dict[str, Any]]:
    """The answer for each of some networks in a small study with one and with several workers."""
    shutil.copy(Path(__file__).with_name("virtual_clock.py"), room)
    (room / "causes.py").write_text(NETWORKS)
    levels = json.dumps([f"module:causes:{network}" for network in networks])
    (room / "study.toml").write_text(
        f'[study]\nname = "causes"\n[factors]\nframework = ["torch"]\nnetwork = {levels}\n{factors}\n'
        "[design]\nreplicates = 2\n[measure]\niterations = 6\nwarmup = 2\nphases = true\ntimeout_s = 240\n"
        "[data]\nsamples = 2000\n"
    )
    for command in (["run", "study.toml", "--out", "out"], ["analyze", "out", "--why", "--json"]):
        done = subprocess.run([STEPLAB, *command], cwd=room, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)["why"]
    assert isinstance(answers, list)
    return answers


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of one study with all causes."""
    every = asked(tmp_path_factory.mktemp("why"), CAUSES, "workers = [1, 2]\nbatch_size = [8]")
    return {answer["factors"]["network"].rpartition(":")[2]: answer for answer in every}


@pytest.mark.parametrize(("network", "cause"), CAUSES.items())
def test_the_cause_made_dominant_is_named_with_its_seconds(answers: dict[str, Any], network: str, cause: str) -> None:
    answer = answers[network]
    first = answer["causes"][0]
    assert (first["key"], first["sure"]) == (cause, True), answer
    assert first["title"] in answer["answer"]
    # Looks at the clock, 1 µs each, are all that this clock adds to the naps.
    assert first["amount"]["seconds"] == pytest.approx(LOST_S, rel=0.02)


def test_more_ranks_and_threads_than_cpus_are_called_oversubscribed(tmp_path: Path) -> None:
    threads = max(os.cpu_count() or 1, 2)
    factors = f"workers = [1, 2]\nthreads = [{threads}]\nbatch_size = [8]"
    (answer,) = asked(tmp_path, ["much_to_compute"], factors)
    assert answer["oversubscribed"].startswith(f"2 ranks × {threads} threads on ")
    assert answer["causes"][0]["key"] == "contention", answer
    assert "oversubscribed" in answer["causes"][0]["sentence"]
    assert "threads" in [help_["key"] for help_ in answer["helps"]]

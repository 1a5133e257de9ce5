"""`analyze --why` on real PyTorch ranks, on a virtual clock: the cause made dominant is named, with its seconds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STEPLAB = Path(sys.executable).with_name("steplab")
LOST_S = 0.06
# What makes each cause dominant: it takes LOST_S longer as soon as there are several ranks.
NETWORKS = f"""
import virtual_clock as clock
import torch.distributed as dist
from torch import nn
from steplab_worker import loader

LOST_S = {LOST_S}


def network(seconds):
    return nn.Sequential(nn.Flatten(), clock.napping(nn.Linear, seconds)(784, 10))


def usual(rows):
    return 0.01, 0.02


def slow_rank():
    last = clock.several() and dist.get_rank() == dist.get_world_size() - 1
    return network(lambda rows: (0.01 + LOST_S * last, 0.02))


def slow_loader():
    following = loader.Loader.next

    def tired(self):
        clock.nap(LOST_S * clock.several())
        return following(self)

    loader.Loader.next = tired
    return network(usual)


def much_to_send():
    # In phased mode ranks exchange their gradients by hand; in native mode DDP does it.
    average = dist.all_reduce

    def slowly(tensor, *said, **more):
        clock.nap(LOST_S * (tensor.numel() > 1))
        return average(tensor, *said, **more)

    dist.all_reduce, clock.exchange_s[0] = slowly, LOST_S
    return network(usual)


def much_to_compute():
    return network(lambda rows: (0.01, 0.02 + LOST_S * clock.several()))
"""


def asked(room: Path, network: str, factors: str) -> dict[str, Any]:
    """The answer for a small study of one network with one and with several workers."""
    shutil.copy(Path(__file__).with_name("virtual_clock.py"), room)
    (room / "causes.py").write_text(NETWORKS)
    (room / "study.toml").write_text(
        f'[study]\nname = "{network}"\n[factors]\nframework = ["torch"]\n'
        f'network = ["module:causes:{network}"]\n{factors}\n'
        "[design]\nreplicates = 2\n[measure]\niterations = 6\nwarmup = 2\nphases = true\ntimeout_s = 240\n"
        "[data]\nsamples = 2000\n"
    )
    for command in (["run", "study.toml", "--out", "out"], ["analyze", "out", "--why", "--json"]):
        done = subprocess.run([STEPLAB, *command], cwd=room, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout)["why"]
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize(
    ("network", "cause"),
    [
        ("slow_rank", "waiting"),
        ("slow_loader", "loader"),
        ("much_to_send", "communication"),
        ("much_to_compute", "contention"),
    ],
)
def test_the_cause_made_dominant_is_named_with_its_seconds(tmp_path: Path, network: str, cause: str) -> None:
    answer = asked(tmp_path, network, "workers = [1, 2]\nbatch_size = [8]")
    first = answer["causes"][0]
    assert (first["key"], first["sure"]) == (cause, True), answer
    assert first["title"] in answer["answer"]
    # Looks at the clock, 1 µs each, are all that this clock adds to the naps.
    assert first["amount"]["seconds"] == pytest.approx(LOST_S, rel=0.02)


def test_more_ranks_and_threads_than_cpus_are_called_oversubscribed(tmp_path: Path) -> None:
    threads = max(os.cpu_count() or 1, 2)
    answer = asked(tmp_path, "much_to_compute", f"workers = [1, 2]\nthreads = [{threads}]\nbatch_size = [8]")
    assert answer["oversubscribed"].startswith(f"2 ranks × {threads} threads on ")
    assert answer["causes"][0]["key"] == "contention", answer
    assert "oversubscribed" in answer["causes"][0]["sentence"]
    assert "threads" in [help_["key"] for help_ in answer["helps"]]

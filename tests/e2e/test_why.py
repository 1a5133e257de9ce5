"""`analyze --why` on real PyTorch trials: a cause that is made dominant on purpose is the one that is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STEPLAB = Path(sys.executable).with_name("steplab")
# What makes each cause dominant. The small network costs next to nothing, so that a nap of 60 ms is all that counts.
NETWORKS = """
import time
import torch
import torch.distributed as dist
from torch import nn
from steplab_worker import loader

NAP = 0.06


def several():
    return dist.is_initialized() and dist.get_world_size() > 1


def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


class Sleepy(nn.Module):
    # The last rank naps in forward.
    def __init__(self):
        super().__init__()
        self.inner = small()

    def forward(self, x):
        if several() and dist.get_rank() == dist.get_world_size() - 1:
            time.sleep(NAP)
        return self.inner(x)


def slow_rank():
    return Sleepy()


def slow_loader():
    # Reading takes long as soon as several ranks read.
    if not hasattr(loader.Loader, "wide_awake"):
        loader.Loader.wide_awake = loader.Loader.next

        def tired(self):
            if several():
                time.sleep(NAP)
            return self.wide_awake()

        loader.Loader.next = tired
    return small()


def much_to_send():
    # 46 MB of gradients, and a batch so small that computing them is little work.
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 3000), nn.ReLU(), nn.Linear(3000, 3000), nn.Linear(3000, 10))


def much_to_compute():
    # Convolutions that keep all cores busy, and 10 KB of gradients.
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 8, 3), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10)
    )
"""


def asked(room: Path, network: str, factors: str) -> dict[str, Any]:
    """The answer for a small study of one network with one and with several workers."""
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
    ("network", "cause", "batch"),
    [("slow_rank", "waiting", 8), ("slow_loader", "loader", 8), ("much_to_send", "communication", 2)],
)
def test_the_cause_made_dominant_is_named(tmp_path: Path, network: str, cause: str, batch: int) -> None:
    answer = asked(tmp_path, network, f"workers = [1, 2]\nbatch_size = [{batch}]")
    first = answer["causes"][0]
    assert first["key"] == cause, answer
    assert first["title"] in answer["answer"] or "within noise" in answer["answer"]
    if cause != "communication":
        assert first["amount"]["seconds"] == pytest.approx(0.06, rel=0.5)


def test_oversubscribed_cores_are_named(tmp_path: Path) -> None:
    ranks = max(os.cpu_count() or 1, 2)
    answer = asked(tmp_path, "much_to_compute", f"workers = [1, {ranks}]\nthreads = [2]\nbatch_size = [64]")
    assert answer["oversubscribed"].startswith(f"{ranks} ranks × 2 threads on ")
    assert answer["causes"][0]["key"] == "contention", answer
    assert "oversubscribed" in answer["causes"][0]["sentence"]
    assert "threads" in [help_["key"] for help_ in answer["helps"]]

"""Trains a small network under torch.profiler, one process or several over gloo, and writes each rank's trace."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.multiprocessing
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule


def network() -> nn.Module:
    """Two convolutions and a dense layer, enough for layers to differ."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 12 * 12, 10)
    )


def train(rank: int, job: dict, place: str) -> None:
    """Profile some steps of one rank."""
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    model = network()
    if job["ranks"] > 1:
        torch.distributed.init_process_group("gloo", store=store(place, job), rank=rank, world_size=job["ranks"])
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples = torch.utils.data.TensorDataset(torch.randn(256, 1, 16, 16), torch.randint(0, 10, (256,)))
    batches = iter(torch.utils.data.DataLoader(samples, batch_size=16))
    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=job["steps"]),
        with_stack=job.get("modules", False), with_modules=job.get("modules", False),
    ) as watching:  # fmt: skip
        for _ in range(job["steps"] + 2):
            images, labels = next(batches)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            watching.step()
    ending = job.get("ending", ".pt.trace.json")
    watching.export_chrome_trace(str(Path(job["folder"]) / f"rank{rank}{ending}"))
    if job["ranks"] > 1:
        torch.distributed.destroy_process_group()


def store(place: str, job: dict) -> torch.distributed.Store:
    """Where the ranks find each other: a file, so that no port is needed."""
    return torch.distributed.FileStore(place, job["ranks"])


def main() -> None:
    """Do one job and say where the traces are."""
    job = json.load(sys.stdin)
    place = sys.argv[1] + ".store"
    if job["ranks"] == 1:
        train(0, job, place)
    else:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        torch.multiprocessing.start_processes(train, (job, place), job["ranks"], start_method="fork")
    Path(sys.argv[1]).write_text(json.dumps(sorted(path.name for path in Path(job["folder"]).iterdir())))


if __name__ == "__main__":
    main()

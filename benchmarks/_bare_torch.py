"""Plain PyTorch, as a person writes it by hand: the bare loop that steplab's native mode is compared with."""

import torch
from torch import nn


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, before, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, filters, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.shortcut = nn.Identity()
        if stride != 1 or before != filters:
            self.shortcut = nn.Sequential(nn.Conv2d(before, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x):
        made = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(made)) + self.shortcut(x))


def resnet18():
    layers, before = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for filters in (64, 128, 256, 512):
        layers += [Block(before, filters, 1 if filters == 64 else 2), Block(filters, filters, 1)]
        before = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def make(network, rate, threads, ranks=None):
    """A training step on a batch of NumPy arrays; it is done when it returns. Several ranks have met already."""
    torch.set_num_threads(threads)
    net = {"lenet5": lenet5, "resnet18": resnet18}[network]()
    if ranks is not None:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)

    def step(samples, labels):
        loss = nn.functional.cross_entropy(net(torch.from_numpy(samples)), torch.from_numpy(labels))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def profiled(step):
    """The step under PyTorch's own profiler."""

    def run(feed, iterations, timed):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            return timed(step, feed, iterations)

    return run

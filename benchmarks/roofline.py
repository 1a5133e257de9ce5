"""AlexNet and ResNet18 in PyTorch under the roofs of this machine.

The NYU report (docs/sources.md) found on a GPU that AlexNet is held back by bandwidth and ResNet18 by arithmetic.
Pass marks, set beforehand, at a batch of 4 and with roofs measured once before and once after the study (the better of
the two holds, for a busy machine only lowers them; they are not measured again when a point lies above):
- no layer and no phase that is long enough to be judged lies above its roof by more than noise;
- the best convolution reaches at least 15 % of its roof, otherwise the roofs are too high to say anything;
- at least 70 % of ResNet18's layer time is bound by arithmetic, and more of it than of AlexNet's.

    .venv/bin/python benchmarks/roofline.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from steplab.analysis.roofline.points import Roofline, RooflinePoint, above
from steplab.api.results.rooflines import roofline
from steplab.runner.instruments.ceilings import best_of, measure_here

STEPLAB = Path(sys.executable).with_name("steplab")
FAIR_SHARE, BOUND_BY_ARITHMETIC = 0.15, 0.70
STUDY = """
[study]
name = "nyu"
[factors]
framework = ["torch"]
network = ["alexnet", "resnet18"]
dataset = ["imagenet"]
batch_size = [4]
[design]
replicates = 3
[measure]
iterations = 5
warmup = 2
[data]
samples = 32
"""


def measured() -> list[Roofline]:
    """Both networks under the roofs of before and after."""
    with tempfile.TemporaryDirectory() as room:
        (Path(room) / "study.toml").write_text(STUDY)
        before = measure_here(seconds=10.0)
        subprocess.run([STEPLAB, "run", "study.toml", "--out", "out"], cwd=room, check=True, capture_output=True)
        roofs = best_of(before, measure_here(seconds=10.0))
        return list(roofline(f"{room}/out", roofs).rooflines)


def arithmetic_share(points: list[RooflinePoint]) -> float:
    """The share of the layers' time that stands on the side of arithmetic."""
    layers = [point for point in points if point.kind != "phase"]
    return sum(p.seconds or 0.0 for p in layers if p.bound == "compute") / sum(p.seconds or 0.0 for p in layers)


def main() -> None:
    """Three marks."""
    points = {name: list(one.points) for one in measured() for name in ("alexnet", "resnet18") if name in one.title}
    every = [point for own in points.values() for point in own]
    contradicting = above(every)
    best = max(point.share_of_roof or 0.0 for point in every if point.kind == "conv")
    shares = {name: arithmetic_share(own) for name, own in points.items()}
    enough = shares["resnet18"] >= BOUND_BY_ARITHMETIC and shares["resnet18"] > shares["alexnet"]
    marks = [
        (f"{len(contradicting)} of {len(every)} points above their roof (mark 0)", not contradicting),
        (f"the best convolution at {best:.0%} of its roof (mark {FAIR_SHARE:.0%})", best >= FAIR_SHARE),
        (f"bound by arithmetic: ResNet18 {shares['resnet18']:.0%} (mark {BOUND_BY_ARITHMETIC:.0%}), AlexNet "
         f"{shares['alexnet']:.0%} (less)", enough),
    ]  # fmt: skip
    for text, passed in marks:
        print(f"{'pass' if passed else 'FAIL'}  {text}")
    for point in contradicting:
        print(f"      {point.layer} {point.of}: {point.share_of_roof:.2f} of its roof in {point.seconds:.2g} s")
    sys.exit(not all(passed for _, passed in marks))


if __name__ == "__main__":
    main()

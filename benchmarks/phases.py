"""How well phases explain a step, layers their phase, and how much of its communication PyTorch hides.

Pass marks, set beforehand, for medians over the replicates of LeNet-5 at a batch of 256 in one rank:
- `t_other`, what no phase explains, is at most 3 % of the phased step;
- the layers' times sum to forward and to backward within 10 % where hooks see them in the running network, within 35 %
  where they are compiled one by one and lack what compiling together saves;
- of two ranks with 64 MB of gradients in DDP's buckets of 25 MB at most 80 % of the communication is exposed.
Times are compared, so a busy machine can fail them; then the last column of other programs' share says so.

    .venv/bin/python benchmarks/phases.py [--frameworks torch jax] [--replicates 5]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

from steplab.store import records, tables
from steplab.store.paths import StudyFolder

STEPLAB = Path(sys.executable).with_name("steplab")
FRAMEWORKS = ("torch", "tensorflow", "jax", "mxnet", "chainer")
UNEXPLAINED, EXPOSED = 0.03, 0.80
LAYERS = {"hooks": 0.10, "pieces": 0.35}
STUDY = """
[study]
name = "phases"
[factors]
{factors}
[design]
replicates = {replicates}
[measure]
iterations = 20
warmup = 10
[data]
samples = 4000
"""
LENET = 'framework = ["{}"]\nbatch_size = [256]\n'
LARGE = (
    'framework = ["torch"]\nnetwork = ["mlp"]\nunits = [2048]\nhidden_layers = [4]\nbatch_size = [64]\nworkers = [2]\n'
    "bucket_mb = [25.0]\n"
)


def measured(room: Path, factors: str, replicates: int) -> Path:
    """Run a study; its folder."""
    (room / "study.toml").write_text(STUDY.format(factors=factors, replicates=replicates))
    subprocess.run([STEPLAB, "run", "study.toml", "--out", "out"], cwd=room, check=True, capture_output=True)
    return room / "out"


def verdict(name: str, figure: float, mark: float, others: float) -> bool:
    """Print a figure beside its pass mark; whether it passes."""
    passed = figure <= mark
    print(f"{name:<44}{figure:>9.1%}{mark:>8.0%}{'pass' if passed else 'FAIL':>7}{others:>12.0%}", flush=True)
    return passed


def layer_error(loaded: tables.Tables, trials: pd.DataFrame) -> float:
    """By what share the layers' median times are off their phase, forward or backward, whichever is worse."""
    layers = loaded.layers.to_pandas().groupby(["trial", "layer"])[["t_f", "t_b"]].median()
    sums = layers.groupby("trial").sum()
    whole = trials.set_index("trial")[["t_f", "t_b"]].loc[sums.index]
    return float((sums / whole - 1).abs().median().max())


def judge_framework(framework: str, replicates: int) -> bool:
    """Phases and layers of one framework."""
    with tempfile.TemporaryDirectory() as room:
        folder = measured(Path(room), LENET.format(framework), replicates)
        loaded = tables.load(folder)
        trials = loaded.trials
        method = next(records.all_records(StudyFolder(folder))).versions["layer_method"]
        others = float(trials["other_cpu_share"].median())
        unexplained = float((trials["t_other"] / trials["t_iter_phased"]).abs().median())
        passed = verdict(f"{framework}: step that no phase explains", unexplained, UNEXPLAINED, others)
        off = layer_error(loaded, trials)
        return verdict(f"{framework}: layers off their phase ({method})", off, LAYERS[method], others) and passed


def judge_overlap(replicates: int) -> bool:
    """What DDP hides."""
    with tempfile.TemporaryDirectory() as room:
        trials = tables.load(measured(Path(room), LARGE, replicates)).trials
        exposed = float((trials["t_exposed"] / trials["t_comm"]).median())
        return verdict("torch: exposed communication", exposed, EXPOSED, float(trials["other_cpu_share"].median()))


def main() -> None:
    """Every framework, then overlap."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--frameworks", nargs="+", default=FRAMEWORKS)
    parser.add_argument("--replicates", type=int, default=5)
    said = parser.parse_args()
    print(f"{'':<44}{'figure':>9}{'mark':>8}{'':>7}{'others took':>12}")
    passed = [judge_framework(framework, said.replicates) for framework in said.frameworks]
    if "torch" in said.frameworks:
        passed.append(judge_overlap(said.replicates))
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()

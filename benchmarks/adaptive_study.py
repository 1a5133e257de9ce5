"""A real adaptive study in PyTorch: killed in the middle, continued, judged beside random trials of the same run.

Runs `studies/adaptive-lenet.toml` (40 trials). After 15 of them its laboratory is killed (SIGKILL) and started again.
Beside it, in the same hour on the same machine: as many random trials, and 24 others that nobody fits to. The held-out
error of the same model fitted to each is printed. Pass marks, set before the first run: no trial is lost or measured
twice, every record says why it was chosen, the study ends at 40; errors are reported, not judged: this machine's noise
decides between two designs of forty trials.

    python benchmarks/adaptive_study.py FOLDER      (goes on where it stopped)
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import steplab

STUDY = Path(__file__).resolve().parent.parent / "studies" / "adaptive-lenet.toml"
STEPLAB = Path(sys.executable).with_name("steplab")
KILLED_AT, TRIALS, HELD_OUT = 15, 40, 24
MODEL = "generic"


def design(kind: str, n: int, seed: int) -> str:
    """The same study with another design."""
    head, _, rest = STUDY.read_text().partition("[design]")
    measure = rest.partition("[measure]")[2]
    text = f'{head}[design]\ntype = "{kind}"\nn = {n}\nreplicates = 1\nseed = {seed}\n\n[measure]{measure}'
    return text.replace('name = "adaptive-lenet"', f'name = "{kind}-{n}"')


def done(folder: Path) -> int:
    return len(list((folder / "records").glob("*.json")))


def run(study: Path, folder: Path, until: int | None = None) -> None:
    """Run a study to its end, or kill its laboratory once so many trials are done."""
    log = folder.with_suffix(".log").open("a")
    process = subprocess.Popen([STEPLAB, "run", study, "--out", folder], stdout=log, stderr=log)
    while process.poll() is None:
        time.sleep(0.2)
        if until is not None and done(folder) >= until:
            process.send_signal(signal.SIGKILL)
            process.wait()
            print(f"killed with {done(folder)} records", flush=True)
            return
    assert process.returncode in (0, 3), folder.with_suffix(".log").read_text()[-2000:]


def main() -> None:
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    studies = {"random": design("random", TRIALS, 7), "held-out": design("random", HELD_OUT, 11)}
    for name, text in studies.items():
        (place / f"{name}.toml").write_text(text)
    if done(place / "adaptive") < KILLED_AT:
        run(STUDY, place / "adaptive", KILLED_AT)
    for name in studies:
        run(place / f"{name}.toml", place / name)
    run(STUDY, place / "adaptive")
    records = [json.loads(path.read_text()) for path in (place / "adaptive" / "records").glob("*.json")]
    assert len(records) == TRIALS and all(record["choice"]["why"] for record in records)
    assert len({(json.dumps(r["config"], sort_keys=True), r["replicate"]) for r in records}) == TRIALS
    test = steplab.open(place / "held-out").trials.query("status == 'ok'")
    for name in ("adaptive", "random"):
        rows = steplab.open(place / name)
        told = steplab.fit(rows, MODEL).predict(test).frame["value"].to_numpy(float)
        miss = np.abs(told / test["t_iter"].to_numpy(float) - 1)
        again = int(rows.trials["replicate"].gt(0).sum())
        print(f"{name}: {len(rows.trials)} trials, {again} replicates, held-out error {100 * miss.mean():.1f} % "
              f"(median {100 * np.median(miss):.1f} %)")  # fmt: skip
    print("pass: killed, continued, ended at 40 trials, each with its reason")


if __name__ == "__main__":
    main()

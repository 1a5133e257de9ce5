"""What `run` and `status` share: the plan of a study, the estimated time, the count of what is done."""

from __future__ import annotations

import statistics
from collections.abc import Collection
from typing import Any

from steplab.cli._output import console, next_step, print_json, table
from steplab.core.feasible import graph_of, resolve
from steplab.core.study import Study
from steplab.core.trial import Trial, describe
from steplab.core.units import seconds as shown
from steplab.runner.jobs import group_key
from steplab.store import records
from steplab.store.overview import Overview, overview
from steplab.store.paths import StudyFolder
from steplab_worker import data

SHOWN_TRIALS = 12
START_S = 4.0  # a group of ranks, framework imported; refined by finished trials
ASSUMED_FLOPS_PER_S = 2e10  # one core, for the first guess only
ASSUMED_OVERHEAD_S = 2e-3


def summary(folder: StudyFolder, trials: Collection[str], seen: Overview) -> dict[str, Any]:
    """How many of these trials are done, failed, left."""
    statuses = [seen.briefs[trial].status for trial in trials if trial in seen.briefs]
    ok = statuses.count("ok")
    counts = {"trials": len(trials), "ok": ok, "failed": len(statuses) - ok, "left": len(trials) - len(statuses)}
    return {"folder": str(folder.root), **counts}


def estimate(trials: list[Trial], folder: StudyFolder, study: Study) -> float | None:
    """Seconds for the trials that are left: from finished ones if there are any, otherwise from the networks' size."""
    done = records.done(folder)
    left = [trial for trial in trials if trial.id not in done]
    finished = [trial.id for trial in trials if trial.id in done][:200]
    took = [head.seconds for head in records.read_heads(folder, finished)] if finished else []
    if took:
        return statistics.fmean(took) * len(left)
    groups = {(group_key(resolve(trial.config)), trial.replicate) for trial in left}
    return sum(_guess(trial, study) for trial in left) + START_S * len(groups)


def _guess(trial: Trial, study: Study) -> float:
    """Seconds of one trial by its parameters: 6 FLOPs per weight and sample, more for shared weights is ignored."""
    resolved = resolve(trial.config)
    graph = graph_of(resolved)
    flops = 6.0 * (graph.parameters if graph else 1e6) * resolved.batch_size
    iterations = 15 + study.measure.iterations * (2 if study.measure.phases else 1)
    if study.about.kind == "train":
        samples = study.data.samples or data.spec(resolved.dataset).generated
        iterations = study.train.epochs * max(1, samples // (resolved.workers * resolved.batch_size))
    return iterations * (ASSUMED_OVERHEAD_S + flops / ASSUMED_FLOPS_PER_S)


def show_plan(study: Study, trials: list[Trial], folder: StudyFolder, as_json: bool) -> None:
    """The plan: which trials, how many, how long."""
    done = summary(folder, [trial.id for trial in trials], overview(folder))
    left = done["left"]
    expected = estimate(trials, folder, study)
    basis = "finished trials" if left < len(trials) else "a rough guess from the networks' sizes"
    if as_json:
        planned = [{"trial": t.id, "replicate": t.replicate, "config": dict(t.config)} for t in trials]
        print_json(done | {"seconds": expected, "basis": basis, "plan": planned})
        return
    show = console()
    varied = _varied(trials)
    rows = [[t.id, t.replicate, *(t.config.get(name) for name in varied)] for t in trials[:SHOWN_TRIALS]]
    show.print(table(["trial", "replicate", *varied], rows))
    if len(trials) > SHOWN_TRIALS:
        show.print(f"… and {len(trials) - SHOWN_TRIALS} more")
    configurations = len({t.id for t in trials if t.replicate == 0}) or len(trials)
    same = {name: value for name, value in trials[0].config.items() if name not in varied}
    counts = f"{len(trials)} trials: {configurations} configurations, {study.design.replicates} replicates"
    show.print(f"{study.about.name}: {counts}", markup=False)
    show.print("the same in all: " + (describe(same) or "nothing"), markup=False)
    show.print(f"{left} left; estimated time {shown(expected or 0)} (from {basis})")
    next_step(f"steplab run {study.path}")


def _varied(trials: list[Trial]) -> list[str]:
    """The factors that take more than one level in the plan."""
    names = dict.fromkeys(name for trial in trials for name in trial.config)
    return [name for name in names if len({trial.config.get(name) for trial in trials}) > 1]

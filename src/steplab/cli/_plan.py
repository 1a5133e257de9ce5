"""What `run` and `status` share: the plan of a study, the estimated time, the count of what is done."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Set
from dataclasses import asdict
from typing import Any

import numpy as np

from steplab.cli._output import console, next_step, print_json, table
from steplab.core.resolution import Resolved, graph_of
from steplab.core.trial import Tally, describe, tally
from steplab.core.units import seconds as shown
from steplab.design.plan import Plan, plan
from steplab.runner.jobs import GROUP_FACTORS, group_key
from steplab.store import records
from steplab.store.brief import Brief
from steplab.store.overview import overview
from steplab.store.paths import StudyFolder
from steplab.study.sections import Study

SHOWN_TRIALS = 12
MOST_LISTED = 100_000  # trials of a plan in its JSON document
MOST_FINISHED = 200  # trials that tell how long the others take
MOST_GUESSED = 200  # configurations that are looked at for a first guess
START_S = 4.0  # a group of ranks, framework imported; refined by finished trials
ASSUMED_FLOPS_PER_S = 2e10  # one core, for the first guess only
ASSUMED_OVERHEAD_S = 2e-3


def own_trials(study: Study, done: Set[str]) -> tuple[int, Set[str]]:
    """How many trials a study has, and which of the finished ones are its own; an imported one has no others."""
    if study.imported:
        return len(done), done
    trials = plan(study)
    return len(trials), trials.among(done)


def summary(folder: StudyFolder, trials: int, done: Iterable[Brief]) -> dict[str, Any]:
    """How many of a number of trials are done, failed, unsupported, left."""
    ended = tally(brief.status for brief in done)
    return {"folder": str(folder.root), "trials": trials, **asdict(ended), "left": trials - ended.ended}


def count_words(document: dict[str, Any]) -> str:
    """The counts of a summary as one phrase."""
    ended = Tally(document["ok"], document["failed"], document["unsupported"])
    return f"{ended}, {document['left']} left of {document['trials']} trials"


def estimate(study: Study, trials: Plan, folder: StudyFolder, done: Set[str]) -> float:
    """Seconds for the trials that are left: from finished ones if there are any, otherwise from the networks' size."""
    finished = sorted(done)[:MOST_FINISHED]
    took = [head.seconds for head in records.read_heads(folder, finished)] if finished else []
    if took:
        return statistics.fmean(took) * (len(trials) - len(done))
    configurations = trials.configurations
    guessed = min(MOST_GUESSED, len(configurations))
    rows = np.random.default_rng(0).choice(len(configurations), guessed, replace=False)
    each = statistics.fmean(_guess(trials.resolved(int(row)), study) for row in rows)
    return each * len(trials) + START_S * _groups(trials)


def _groups(trials: Plan) -> int:
    """About how many groups of ranks are started: those that differ, anew in each block."""
    rows = trials.configurations.distinct(GROUP_FACTORS).first
    few = len(rows) <= MOST_GUESSED
    starts = len({group_key(trials.resolved(int(row))) for row in rows}) if few else len(rows)
    blocks = sum(trials.order.size(replicate) > 0 for replicate in range(trials.order.replicates))
    return min(len(trials), starts * blocks)


def _guess(resolved: Resolved, study: Study) -> float:
    """Seconds of one trial by its parameters: 6 FLOPs per weight and sample, more for shared weights is ignored."""
    graph = graph_of(resolved)
    flops = 6.0 * (graph.parameters if graph else 1e6) * resolved.batch_size
    return study.kind.iterations(resolved) * (ASSUMED_OVERHEAD_S + flops / ASSUMED_FLOPS_PER_S)


def show_plan(study: Study, trials: Plan, folder: StudyFolder, as_json: bool) -> None:
    """The plan: which trials, how many, how long."""
    briefs = overview(folder).briefs
    done = trials.among(briefs.keys())
    counts = summary(folder, len(trials), [briefs[trial] for trial in done])
    expected = estimate(study, trials, folder, done)
    left = counts["left"]
    basis = "finished trials" if left < len(trials) else "a rough guess from the networks' sizes"
    if as_json:
        listed = itertools.islice(trials, MOST_LISTED)
        planned = [{"trial": t.id, "replicate": t.replicate, "config": dict(t.config)} for t in listed]
        print_json(counts | {"seconds": expected, "basis": basis, "note": trials.note, "plan": planned})
        return
    show = console()
    varied = _varied(trials)
    rows = [[t.id, t.replicate, *(t.config.get(name) for name in varied)] for t in trials[:SHOWN_TRIALS]]
    show.print(table(["trial", "replicate", *varied], rows))
    if len(trials) > SHOWN_TRIALS:
        show.print(f"… and {len(trials) - SHOWN_TRIALS} more")
    same = {name: value for name, value in trials[0].config.items() if name not in varied}
    configurations = f"{len(trials.configurations)} configurations"
    counted = f"{len(trials)} trials: {configurations}, {study.design.replicates} replicates"
    show.print(f"{study.about.name}: {counted}", markup=False)
    show.print("the same in all: " + (describe(same) or "nothing"), markup=False)
    show.print(f"{left} left; estimated time {shown(expected)} (from {basis})")
    next_step(f"steplab run {study.path}")


def _varied(trials: Plan) -> list[str]:
    """The factors that take more than one level in the plan."""
    return [name for name, column in trials.configurations.columns.items() if np.ptp(column.codes)]

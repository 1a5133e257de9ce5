"""What the report of a study shows, from its folder.

Libraries are imported on the way: while models are fitted in a process of their own, this one imports and analyses.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from steplab.analysis.roofline.points import Roofline
    from steplab.analysis.study import Analysis
    from steplab.api.modelling.rows import Columns
    from steplab.api.study_data import StudyData
    from steplab.core.background import BackgroundProcess
    from steplab.models.base import PerformanceModel
    from steplab.models.columns.training_rows import Chosen
    from steplab.report.data import Provenance, ReportData, Tabled
    from steplab.report.modelling import Modelled
    from steplab.report.planned import Planned, WorkersCurve
    from steplab.store.paths import StudyFolder
    from steplab.store.tables import Tables
    from steplab.study.sections import Study

BUDGET_S = 2.0  # for fitting models: a report is not a campaign
MOST_LOGS = 100
FOR_A_PROCESS = 200  # trials that pay for fitting in a process of its own
FITTING = ("steplab.report.modelling", "steplab.models.linear", "steplab.models.hybrid")  # what that imports


def fitter(folder: Path) -> AbstractContextManager[BackgroundProcess | None]:
    """A process to fit the models of a large study in, which gets ready while the study is read."""
    from steplab.core.background import BackgroundProcess
    from steplab.store.paths import StudyFolder
    from steplab.store.records import done

    large = len(done(StudyFolder(folder))) > FOR_A_PROCESS
    return BackgroundProcess(*FITTING) if large and (os.cpu_count() or 1) > 1 else nullcontext()


def report_data(
    results: StudyData, models: Columns = (), budget_s: float = BUDGET_S, beside: BackgroundProcess | None = None
) -> ReportData:
    """Everything that the report of a study shows; models are fitted beside, if that process is there."""
    from steplab.store.paths import StudyFolder

    names, files = _asked(models)
    place = StudyFolder(results.folder)
    loaded = results.tables
    chosen = _chosen(results.folder, loaded)
    # What comes next takes its time, imports too: the other process is to begin first.
    fit = functools.partial(_fitted, chosen, names, files, budget_s)
    fitted = beside.begin(fit) if beside else fit

    from steplab.analysis.study import analyse
    from steplab.api.results.step_work import with_step_work
    from steplab.report.data import Tabled, gather

    trials = with_step_work(loaded.trials, loaded.factors, results.folder)
    analysis = analyse(trials, loaded.telling, loaded.iterations, loaded.layers, loaded.epochs)
    tabled = Tabled(loaded.trials, loaded.iterations, loaded.layers, loaded.factors)
    origin = _provenance(place, results.study, loaded)
    about = results.study.about
    roofs = _roofline(place, tabled, analysis)
    logs = _logs(place, loaded.trials)
    modelled = _with_forecast(fitted(), chosen, analysis)
    decided = _planned(place, analysis, modelled)
    return gather(about.name, about.description, analysis, tabled, origin, modelled, logs, roofs, decided)


def _planned(place: StudyFolder, analysis: Analysis, modelled: Modelled) -> Planned:
    """How many workers pay in the fastest configuration, and what an adaptive design chose and why."""
    from steplab.report.planned import ChosenTrial, Doubt, Planned
    from steplab.store.choices import read_batches
    from steplab.store.records import done

    finished, before = done(place), 0
    choices, doubts, ended = [], [], ""
    for batch in read_batches(place):
        if batch.uncertainty is not None:
            doubts.append(Doubt(before, batch.uncertainty))
        choices += [ChosenTrial(batch.batch, name, why) for name, why in batch.trials.items() if name in finished]
        before, ended = len(choices), "" if batch.trials else batch.why
    return Planned(_workers(analysis, modelled), tuple(choices), tuple(doubts), ended)


def _workers(analysis: Analysis, modelled: Modelled) -> WorkersCurve | None:
    """The speed-up that the first model of the forecast predicts."""
    from steplab.core.errors import SteplabError
    from steplab.planning.workers import plan_workers
    from steplab.report.planned import WorkersCurve

    name = modelled.forecasts[0].name if modelled.forecasts else ""
    model = next((judged.model for judged in modelled.judged if judged.name == name), None)
    if model is None or not analysis.groups:
        return None
    others = {c: str(level) for c, level in analysis.groups[0].factors.items()
              if c in model.roles_.columns and c != "workers"}  # fmt: skip
    try:
        plan = plan_workers(model, others)
    except SteplabError:
        return None  # outside of what can be planned with
    rows = plan.rows
    of = ", ".join(f"{c}={level}" for c, level in others.items()) or "as in the study"
    return WorkersCurve(
        of, tuple(row.workers for row in rows), tuple(row.speedup for row in rows),
        tuple(row.speedup_low for row in rows), tuple(row.speedup_high for row in rows), plan.enough, plan.why,
    )  # fmt: skip


def _roofline(place: StudyFolder, tabled: Tabled, analysis: Analysis) -> Roofline | None:
    """The roofline of the fastest configuration with timed layers, if this machine's ceilings were measured before.

    A report measures nothing: `steplab roofline` does, and keeps the ceilings. They are those of the CPU and bound
    nothing that ran on a GPU or on a virtual clock.
    """
    from steplab.api.results.rooflines import of_configuration
    from steplab.core.errors import SteplabError
    from steplab.runner.instruments.ceilings import known_ceilings
    from steplab.store import records

    timed = analysis.layers.trials if analysis.layers else ()
    known = known_ceilings() if timed else None
    if known is None:
        return None
    rows = tabled.trials[tabled.trials["trial"].isin(timed)]
    record = records.read_record(place, timed[0])
    if record.versions.get("device", "cpu") != "cpu":
        return None
    try:
        return of_configuration(record, rows, tabled.layers, known)
    except SteplabError:
        return None  # a network that cannot be counted has no roofline


def _asked(models: Columns) -> tuple[list[str], list[tuple[str, PerformanceModel]]]:
    """The models that were asked for: names are to be fitted, files were fitted before."""
    from steplab.api.modelling.model_file import read_model
    from steplab.api.modelling.rows import listed

    words = listed(models)
    files = [(Path(word).stem, read_model(Path(word))) for word in words if word.endswith(".json")]
    names = [word for word in words if not word.endswith(".json")]
    if names:
        _check_names(names)
    return names, files


def _fitted(
    chosen: Chosen | str, names: Sequence[str], files: Sequence[tuple[str, PerformanceModel]], budget_s: float
) -> Modelled:
    from steplab.models import offered
    from steplab.report.modelling import Modelled, given_models, model_study

    if isinstance(chosen, str):
        return Modelled(reason=chosen)
    return given_models(chosen, files) if files else model_study(chosen, names or offered("report"), budget_s)


def _with_forecast(modelled: Modelled, chosen: Chosen | str, analysis: Analysis) -> Modelled:
    """The same with what more workers would give the fastest configuration."""
    from steplab.report.modelling import with_forecast

    fastest: dict[str, object] = dict(analysis.groups[0].factors) if analysis.groups else {}
    return modelled if isinstance(chosen, str) else with_forecast(modelled, chosen, fastest)


def _check_names(names: list[str]) -> None:
    """A wrong name is told before anything is fitted."""
    from steplab.core.errors import ModelError, nearest
    from steplab.models import model_names

    for name in names:
        if name not in model_names():
            raise ModelError(f"there is no model {name!r}", hint=nearest(name, model_names()))


def _chosen(folder: Path, loaded: Tables) -> Chosen | str:
    """The rows and columns that `steplab fit DIR` would take, or why there are none."""
    from steplab.core.errors import SteplabError
    from steplab.models.columns.roles import Roles
    from steplab.models.columns.training_rows import choose
    from steplab.store.source import study_source

    if not len(loaded.trials):
        return "no trial has been measured"
    try:
        source = study_source(loaded, folder)
        return choose(source.frame, None, Roles(), source.group, source.factors)
    except SteplabError as error:
        return str(error)


def _logs(place: StudyFolder, trials: pd.DataFrame) -> dict[str, str]:
    """The ends of the logs of trials that failed."""
    from steplab.core.errors import RecordError
    from steplab.core.trial import is_failure
    from steplab.store import records

    failed = list(trials[trials["status"].map(is_failure)]["trial"].head(MOST_LOGS)) if len(trials) else []
    logs: dict[str, str] = {}
    for trial in failed:
        try:
            logs[str(trial)] = records.read_record(place, str(trial)).log_tail[-2000:]
        except RecordError:
            continue  # it was put aside for another run just now
    return logs


def _provenance(place: StudyFolder, study: Study, loaded: Tables) -> Provenance:
    """Machine, versions and commands, from one record of each framework, data set and host."""
    import shlex

    from steplab.core.errors import RecordError
    from steplab.report.data import Provenance
    from steplab.store import records

    versions: dict[str, str] = {}
    samples: dict[str, int] = {}
    shown = None
    for trial in _typical(loaded.trials):
        try:
            record = records.read_record(place, str(trial))
        except RecordError:
            continue
        versions.update({k: v for k, v in record.versions.items() if v and getattr(record.machine, k, None) != v})
        samples[record.data.name] = record.data.samples
        shown = record if shown is None or (record.status == "ok" and shown.status != "ok") else shown
    at = shlex.quote(str(place.root))
    verbs = (f"run {shlex.quote(str(place.study))} --out {at}", f"analyze {at}", f"compare {at}", f"report {at}")
    commands = tuple(f"steplab {verb}" for verb in verbs)
    if shown is None:
        return Provenance(study.text, {"cpu": "no trial yet"}, {}, "", "none", "", {}, commands, loaded.unreadable)
    source = f"{shown.data.name}, {shown.data.source}, {shown.data.samples} samples"
    if shown.data.source == "none":
        source = "none was read"
    return Provenance(
        study.text, shown.machine.model_dump(), versions, shown.command, source, shown.started[:10], samples, commands,
        loaded.unreadable,
    )  # fmt: skip


def _typical(trials: pd.DataFrame) -> list[str]:
    """One trial for each framework, data set and host, good ones first."""
    if not len(trials):
        return []
    ranked = trials.assign(bad=trials["status"] != "ok").sort_values("bad", kind="stable")
    keys = [name for name in ("framework", "dataset", "host") if name in ranked]
    return [str(trial) for trial in ranked.drop_duplicates(keys)["trial"]]

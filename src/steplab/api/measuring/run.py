"""Running a study: everything is checked first, then every trial becomes a record, whatever happens to it."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steplab.api.left_out import left_out
from steplab.api.measuring.budget import is_adaptive, planned_number
from steplab.api.measuring.durations import DURATIONS
from steplab.api.measuring.estimate import Expectation, Guess
from steplab.api.measuring.plan import StudyPlan, expectation, missing_environments, plan
from steplab.api.measuring.status import Counts, counts
from steplab.api.results.results import Results
from steplab.core import catalogue
from steplab.core.errors import EnvironmentFault, InputError
from steplab.core.record import Record
from steplab.core.trial import MEASURED, Trial, is_failure
from steplab.design.plan import Plan
from steplab.runner.campaign import Campaign
from steplab.runner.executors import LOCAL, detachable, load_executor
from steplab.runner.interrupts import Stop
from steplab.runner.observer import Observer
from steplab.runner.ranks.private_network import doors_of, obstacle, open_doors
from steplab.store import records
from steplab.store.choices import read_batches
from steplab.store.overview import Overview, overview
from steplab.store.own_code_file import write_own_code
from steplab.store.paths import StudyFolder
from steplab.store.submissions import Ledger
from steplab.study.sections import Study

log = logging.getLogger("steplab")


class RunObserver(Observer):
    """Watches a run: override the methods that you want to hear of. By default nothing happens but a log entry.

    Each is called in the thread that runs the study, and may be called while a trial is being measured: be quick.
    """

    def on_note(self, text: str) -> None:
        """Something that a person should know, such as that ranks can be reached by others; logged by default."""
        log.warning(text)

    def on_begin(self, trials: int, expected_s: float) -> None:
        """The first trial is about to begin; how many are to run, and the seconds that this may take."""

    def on_estimate(self, left_s: float) -> None:
        """The seconds that the trials left may take, estimated anew from those that have run."""


class _Learning(RunObserver):
    """Passes on what it hears, and after each trial an estimate that has learned from it."""

    def __init__(self, observer: RunObserver, learned: Expectation, guesses: dict[str, Guess], most: int) -> None:
        self.observer, self.learned, self.left, self.most = observer, learned, guesses, most
        self.guessed = learned.guessed(guesses.values())  # of what is left; kept up, for a study may have many trials
        self.own = Expectation(learned.study, before={})
        self.recorded: set[str] = set()
        self.since = time.monotonic()

    def on_start(self, trial: Trial) -> None:
        """A trial begins."""
        self.observer.on_start(trial)

    def on_progress(self, trial: Trial, news: str) -> None:
        """A trial has come further."""
        self.observer.on_progress(trial, news)

    def on_wait(self, trial: Trial, holder: str) -> None:
        """Only trials of others are left."""
        self.observer.on_wait(trial, holder)

    def on_tick(self) -> None:
        """Some time has passed."""
        self.observer.on_tick()

    def on_jobs(self, text: str) -> None:
        """How the jobs of a study that runs elsewhere are."""
        self.observer.on_jobs(text)

    def on_note(self, text: str) -> None:
        """Something that a person should know."""
        self.observer.on_note(text)

    def on_record(self, record: Record) -> None:
        """A trial has ended: what it and the start of its ranks took changes what the others are expected to take."""
        now = time.monotonic()
        self.recorded.add(record.trial)
        if record.status == MEASURED:
            for expected in (self.learned, self.own):
                expected.learn(record.config, record.seconds, now - self.since - record.seconds)
        self.since, self.most = now, self.most - 1
        self._forget(record.trial)
        self.observer.on_record(record)
        self.observer.on_estimate(self.estimate())

    def _forget(self, trial: str) -> None:
        ended = self.left.pop(trial, None)
        for shape, seconds in self.learned.guessed([ended] if ended else []).items():
            self.guessed[shape] -= seconds

    def estimate(self) -> float:
        """The seconds of what is left to do."""
        if not self.left:
            return 0.0
        return self.learned.corrected(self.guessed) / len(self.left) * self.most


@dataclass(frozen=True)
class RunSummary:
    """How a run ended: the study's counts, the seconds it took, and whether somebody asked it to stop."""

    counts: Counts
    seconds: float
    stopped: bool

    def document(self) -> dict[str, Any]:
        """What `steplab run --json` prints."""
        return self.counts.document() | {"seconds": round(self.seconds, 3)}


def run(
    study: Study | Path | str,
    out: Path | str | None = None,
    limit: int | None = None,
    *,
    trials: Collection[str] = (),
    retry_failed: bool = False,
    modules: Path | str | None = None,
    observer: RunObserver | None = None,
    stop: Stop | None = None,
    executor: str = LOCAL,
    detach: bool = False,
) -> Results:
    """Run a study, or go on where it stopped, and open its folder.

    A trial that fails is a record, not an error. `KeyboardInterrupt` ends the ranks and is passed on; finished trials
    stay, and the next call goes on with the others. No signal is taken: set `stop.asked` from wherever you like to end
    after the trial that runs.

    Args:
        study: A study file, or what `read_study` gave.
        out: The study's folder, by default `runs/<study name>`.
        limit: Run at most that many trials now.
        trials: The ids of the only trials to run, by default all.
        retry_failed: Run failed trials again.
        modules: The folder of the study's own code (`module:…`), which runs in the ranks; by default that of the
            study file.
        observer: Hears of every trial.
        executor: Where trials run: `local`, `hosts`, `slurm`.
        detach: Return as soon as jobs are submitted (`slurm`); a later call goes on with them.
        stop: Ends the run after the trial that runs, as soon as `stop.asked` is true.
    """
    watching = observer or RunObserver()
    planned = plan(study, out, trials, modules=modules, tell=watching.on_note)
    run_plan(planned, limit, retry_failed=retry_failed, observer=watching, stop=stop, executor=executor, detach=detach)
    return Results(planned.folder)


def run_plan(
    planned: StudyPlan,
    limit: int | None = None,
    *,
    retry_failed: bool = False,
    observer: RunObserver | None = None,
    stop: Stop | None = None,
    executor: str = LOCAL,
    detach: bool = False,
) -> RunSummary:
    """Run what is planned, as `run` does; how it ended."""
    study, trials, folder = planned.study, planned.trials, StudyFolder(planned.folder)
    watching, stop = observer or RunObserver(), stop or Stop()
    if limit is not None and limit < 0:
        raise InputError(f"limit is {limit}", hint="allowed: 0 or more trials, or None for all")
    if planned.note:
        watching.on_note(planned.note)
    chosen = load_executor(executor, study)
    submitting = detachable(chosen) if detach else None
    chosen.check(trials)
    check_environments(trials)
    _warn_of_open_doors(study, executor, watching)
    records.prepare(folder, study.text)
    write_own_code(folder, planned.own_code)
    before = _set_aside(folder, trials, retry_failed, watching)
    started = time.monotonic()
    done = trials.among(records.done(folder))
    left = planned_number(study, trials, folder, len(done), partial=planned.selected) - len(done)
    most = left if limit is None else min(left, limit)
    learned = expectation(study, trials, folder, done)
    watching.on_begin(most, learned.left(trials, done, most))
    learning = _Learning(watching, learned, learned.guesses(trials, done), most)
    own_code = planned.own_code
    campaign = Campaign(study, trials, folder, own_code.folder, learning, own_code=own_code)
    if is_adaptive(study) and not planned.selected:
        campaign = _choosing(campaign, watching)
    try:
        if submitting is not None:
            submitting.submit(campaign, limit)
        else:
            chosen.run(campaign, stop, limit)
    finally:
        if executor == LOCAL:  # other machines are not as fast as this one
            _remember(learning.own)
            _remember_noise(planned.folder, records.done(folder) - learning.recorded, learning.own)
    return RunSummary(_counted(planned, folder, before), time.monotonic() - started, stop.asked)


def _choosing(campaign: Campaign, observer: RunObserver) -> Campaign:
    """The same with the trials that an adaptive design chooses, batch after batch; what ends it is told."""
    from steplab.api.measuring.adaptive import AdaptiveStudy  # brings pandas and SciPy

    adaptive = AdaptiveStudy(campaign.study, campaign.trials, campaign.folder)

    def chosen() -> Plan | None:
        following = adaptive.next()
        if following is None:
            observer.on_note(read_batches(campaign.folder)[-1].why)
        return following

    first = chosen()
    return replace(campaign, trials=first or campaign.trials.selected([]), more=chosen if first else None)


def check_environments(trials: Plan) -> None:
    """Say which framework's environment is missing: better now than in every record."""
    for sentence in missing_environments(trials):
        raise EnvironmentFault(sentence)


def _remember(own: Expectation) -> None:
    """Keep how long the trials of real frameworks took, for the estimates of other studies."""
    real = {shape: took for shape, took in own.took.items() if catalogue.framework(shape.framework).needs_environment}
    if real:
        DURATIONS.add(real)


def _remember_noise(folder: Path, others: Collection[str], own: Expectation) -> None:
    """Keep the noise that this run added between replicates of real frameworks, for the powers of other studies.

    What earlier runs and other laboratories measured is theirs to remember.
    """
    if any(catalogue.framework(shape.framework).needs_environment for shape in own.took):
        from steplab.api.measuring.noise_memory import NOISE
        from steplab.api.measuring.powers import real_noise, scatter  # brings pandas

        NOISE.add(real_noise(scatter(folder, others)))


def pilot(
    study: Study | Path | str,
    out: Path | str | None = None,
    *,
    modules: Path | str | None = None,
    observer: RunObserver | None = None,
    stop: Stop | None = None,
) -> RunSummary:
    """Measure the noise between replicates, so that `plan` can say which differences a study will see.

    A few replicates of the smallest and of the largest configuration, in the folder `<out>-pilot`.
    """
    watching = observer or RunObserver()
    return run_pilot(plan(study, out, modules=modules, tell=watching.on_note), observer=watching, stop=stop)


def run_pilot(planned: StudyPlan, *, observer: RunObserver | None = None, stop: Stop | None = None) -> RunSummary:
    """The pilot of a plan, as `pilot` runs it."""
    from steplab.api.measuring.powers import pilot_folder, pilot_plan

    trials = pilot_plan(planned.study, planned.trials)
    beside = replace(planned, trials=trials, folder=pilot_folder(planned.folder), selected=True)
    return run_plan(beside, observer=observer, stop=stop)


def _warn_of_open_doors(study: Study, executor: str, observer: RunObserver) -> None:
    """Ranks that others can reach are worth a word before they run."""
    if executor != LOCAL:
        if elsewhere := doors_of(study):
            observer.on_note(
                "warning: whoever reaches the hosts can reach the ranks on them while a trial of several workers "
                f"runs, without a password. {'. '.join(elsewhere)}. See docs/security.md"
            )
        return
    doors = open_doors(study)
    if doors:
        observer.on_note(
            f"warning: ranks get no private network here ({obstacle()}), so others can reach them while a trial of "
            f"several workers runs, without a password. {'. '.join(doors)}. See docs/security.md"
        )


def _set_aside(folder: StudyFolder, trials: Plan, retry_failed: bool, observer: RunObserver) -> Overview:
    """Put aside what is no record, and failed trials if they are to run again; what lies in the folder."""
    seen = overview(folder)
    for trial in seen.damaged:
        records.put_damaged_aside(folder, trial)
    aside = left_out(seen.damaged.values(), f"put into {folder.damaged}")
    for text in (*aside, *left_out([*seen.unreachable.values(), *seen.strangers])):
        observer.on_note(text)
    failed = {trial for trial, brief in seen.briefs.items() if is_failure(brief.status)} if retry_failed else ()
    for trial in trials.among(failed) if failed else ():
        records.supersede(folder, trial)
    Ledger(folder).forget_losses(failed)
    return seen


def _counted(planned: StudyPlan, folder: StudyFolder, before: Overview) -> Counts:
    """What is done now; what was seen before is not read again."""
    briefs, trials = overview(folder, before=before).briefs, planned.trials
    own = [briefs[trial] for trial in trials.among(briefs.keys())]
    return counts(folder, planned_number(planned.study, trials, folder, len(own), partial=planned.selected), own)

"""Run or resume a study: every trial becomes a record, whatever happens to it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steplab.cli._output import JsonOption, ModulesOption, command_app, console, next_step, print_json, progress_text
from steplab.core.errors import InputError
from steplab.core.units import seconds as shown
from steplab.runner.observer import Observer

if TYPE_CHECKING:
    from rich.progress import Progress

    from steplab.core.record import Record
    from steplab.core.trial import Trial
    from steplab.design.plan import Plan
    from steplab.runner.campaign import Campaign
    from steplab.store.overview import Overview
    from steplab.store.paths import StudyFolder
    from steplab.study.sections import Study

app = command_app()
INTERRUPTED = 130


@app.command()
def run(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study to run.")],
    out: Annotated[Path | None, typer.Option(help="The study's folder; by default runs/<study name>.")] = None,
    executor: Annotated[str, typer.Option(help="Where trials run: local.")] = "local",
    limit: Annotated[int | None, typer.Option(min=0, help="Run at most that many trials now.")] = None,
    trial: Annotated[list[str] | None, typer.Option(help="Run only the trial of this id; may be repeated.")] = None,
    retry_failed: Annotated[bool, typer.Option(help="Run failed trials again.")] = False,
    modules: ModulesOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan and the estimated time.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a study, or go on where it stopped. Ctrl-C ends at the next trial, a second one at once.

    Example: steplab run studies/demo.toml --out runs/demo
    """
    from steplab.cli._plan import estimate, show_plan
    from steplab.core.errors import allowed
    from steplab.design.plan import plan
    from steplab.runner.campaign import Campaign, check_folder
    from steplab.store import records
    from steplab.store.paths import StudyFolder
    from steplab.study.file import read_study

    if executor != "local":
        raise InputError(f"there is no executor {executor!r}", where="--executor", hint=allowed(["local"]))
    study = read_study(study_file)
    trials = _selected(plan(study), trial)
    folder = StudyFolder(out or Path("runs") / study.about.name)
    check_folder(folder, study)
    if trials.note:
        console(stderr=True).print(trials.note, markup=False, soft_wrap=True)
    if dry_run:
        show_plan(study, trials, folder, as_json)
        return
    _check_environments(trials)
    own_code = _own_code(study, modules)
    _warn_of_open_doors(study)
    records.prepare(folder, study.text)
    seen = _set_aside(folder, trials, retry_failed)
    campaign = Campaign(study, trials, folder, modules=own_code)
    started = time.monotonic()
    done = trials.among(records.done(folder))
    expected_s = estimate(study, trials, folder, done)
    stopped = _run(campaign, len(trials) - len(done), limit, expected_s, quiet=as_json and not os.isatty(2))
    _finish(campaign, seen, time.monotonic() - started, as_json)
    if stopped:
        raise typer.Exit(INTERRUPTED)


def _own_code(study: Study, modules: Path | None) -> Path | None:
    """The folder of the study's own networks, if it has any, and a word on it: their code will run."""
    if not study.own_networks:
        return None
    folder = Path(os.path.abspath(modules or study.path.parent))  # noqa: PTH100 - without `..`, and links stay
    if not folder.is_dir():
        raise InputError("there is no such folder", where=f"--modules {folder}")
    console(stderr=True).print(
        f"{', '.join(study.own_networks)}: the ranks run code from {folder}", markup=False, soft_wrap=True
    )
    return folder


def _selected(trials: Plan, ids: list[str] | None) -> Plan:
    if not ids:
        return trials
    chosen = trials.selected(ids)
    missing = [name for name in ids if name not in set(chosen.ids())]
    if missing:
        raise InputError(f"the study has no trial {missing[0]!r}", where="--trial", hint="`--dry-run` lists the ids")
    return chosen


def _check_environments(trials: Plan) -> None:
    """A missing environment is better said now than in every record."""
    from steplab.runner.environments import registry

    rows = trials.configurations.distinct(("framework", "environment")).first
    needed = [trials.resolved(int(row)) for row in rows]
    for framework, name in sorted({(resolved.framework, resolved.environment) for resolved in needed}):
        registry.find(framework, name)


def _warn_of_open_doors(study: Study) -> None:
    """Ranks that others can reach are worth a word before they run."""
    from steplab.runner.ranks.private_network import obstacle, open_doors

    doors = open_doors(study)
    if doors:
        console(stderr=True).print(
            f"warning: ranks get no private network here ({obstacle()}), so others can reach them while a trial of "
            f"several workers runs, without a password. {'. '.join(doors)}. See docs/security.md",
            markup=False,
            soft_wrap=True,
        )


def _set_aside(folder: StudyFolder, trials: Plan, retry_failed: bool) -> Overview:
    """Put aside what is no record, and failed trials if they are to run again; what lies in the folder."""
    from steplab.cli._left_out import tell
    from steplab.core.trial import is_failure
    from steplab.store import records
    from steplab.store.overview import overview

    seen = overview(folder)
    for trial in seen.damaged:
        records.put_damaged_aside(folder, trial)
    tell(seen.damaged.values(), f"put into {folder.damaged}")
    tell([*seen.unreachable.values(), *seen.strangers])
    failed = {trial for trial, brief in seen.briefs.items() if is_failure(brief.status)} if retry_failed else ()
    for trial in trials.among(failed) if failed else ():
        records.supersede(folder, trial)
    return seen


def _run(campaign: Campaign, left: int, limit: int | None, expected_s: float, quiet: bool) -> bool:
    """Run with a progress bar; whether a person stopped it."""
    from steplab.runner.interrupts import listening

    with _progress(left if limit is None else min(left, limit), expected_s, quiet) as bar:
        campaign.observer = bar
        with listening(bar.stopping) as stop:
            campaign.run(stop, limit)
    return stop.asked


class _Bar(Observer):
    """A campaign's progress: done, failed, unsupported, time left. Drawn when something happens, or every second."""

    def __init__(self, progress: Progress, total: int, expected_s: float | None) -> None:
        self.progress, self.total = progress, total
        self.statuses: list[str] = []
        self.task = progress.add_task("starting", total=total, failed="", unsupported="", left=_left(expected_s))
        self.began = time.monotonic()

    def on_start(self, trial: Trial) -> None:
        from steplab.core.trial import describe

        self.progress.update(self.task, description=describe(trial.config))
        self.progress.refresh()

    def on_wait(self, trial: Trial, holder: str) -> None:
        self.progress.console.print(f"waiting for the trial {trial.id}: it is claimed by {holder}")

    def on_progress(self, trial: Trial, news: str) -> None:
        from steplab.core.trial import describe

        self.progress.update(self.task, description=f"{news}, {describe(trial.config)}")
        self.progress.refresh()

    def on_record(self, record: Record) -> None:
        from steplab.core.trial import tally

        self.statuses.append(record.status)
        if record.status != "ok":
            self.progress.console.print(f"{record.status}: {record.reason} ({record.trial})", markup=False)
        ended = tally(self.statuses)
        failed = f"{ended.failed} failed" if ended.failed else ""
        unsupported = f"{ended.unsupported} unsupported" if ended.unsupported else ""
        self.progress.update(self.task, advance=1, failed=failed, unsupported=unsupported)
        self.on_tick()

    def on_tick(self) -> None:
        finished = len(self.statuses)
        if finished:
            passed, open_ = time.monotonic() - self.began, self.total - finished
            told = _left(passed / finished * open_) if open_ else f"in {shown(passed)}"
            self.progress.update(self.task, left=told)
        self.progress.refresh()

    def stopping(self) -> None:
        self.progress.console.print("ending after this trial; Ctrl-C again ends at once")


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"about {shown(seconds)} left"


@contextmanager
def _progress(total: int, expected_s: float | None, quiet: bool) -> Iterator[_Bar]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress

    columns = (BarColumn(20), MofNCompleteColumn(), progress_text("fields[failed]", "red"))
    texts = (progress_text("fields[unsupported]"), progress_text("fields[left]"), progress_text("description", "dim"))
    terminal = console(stderr=True)
    with Progress(*columns, *texts, console=terminal, auto_refresh=False, disable=quiet, transient=False) as progress:
        yield _Bar(progress, total, expected_s)


def _finish(campaign: Campaign, before: Overview, seconds: float, as_json: bool) -> None:
    from steplab.cli._plan import count_words, summary
    from steplab.store.overview import overview

    briefs = overview(campaign.folder, before=before).briefs
    done = [briefs[trial] for trial in campaign.trials.among(briefs.keys())]
    document = summary(campaign.folder, len(campaign.trials), done) | {"seconds": round(seconds, 3)}
    if as_json:
        print_json(document)
    else:
        show = console()
        show.print(f"{count_words(document)} in {campaign.folder.root}", markup=False)
        next_step(f"steplab analyze {campaign.folder.root}")
    if document["failed"]:
        raise typer.Exit(3)

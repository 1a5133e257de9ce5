"""Run or resume a study: every trial becomes a record, whatever happens to it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steplab.cli._output import JsonOption, ModulesOption, command_app, console, next_step, print_json
from steplab.core.errors import InputError
from steplab.core.units import seconds as shown

if TYPE_CHECKING:
    from rich.progress import Progress

    from steplab.core.record import Record
    from steplab.core.study import Study
    from steplab.core.trial import Trial
    from steplab.runner.campaign import Campaign
    from steplab.store.overview import Overview
    from steplab.store.paths import StudyFolder

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
    from steplab.core.study_file import read_study
    from steplab.design.plan import plan
    from steplab.runner.campaign import Campaign, check_folder
    from steplab.store import records
    from steplab.store.paths import StudyFolder

    if executor != "local":
        raise InputError(f"there is no executor {executor!r}", where="--executor", hint=allowed(["local"]))
    study = read_study(study_file)
    trials = _selected(plan(study), trial)
    folder = StudyFolder(out or Path("runs") / study.about.name)
    check_folder(folder, study)
    if dry_run:
        show_plan(study, trials, folder, as_json)
        return
    _check_environments(trials)
    _warn_of_open_doors(study)
    records.prepare(folder, study.text)
    seen = _set_aside(folder, trials, retry_failed)
    campaign = Campaign(study, trials, folder, modules=_own_code(study, modules))
    started = time.monotonic()
    stopped = _run(campaign, limit, estimate(trials, folder, study), quiet=as_json and not os.isatty(2))
    _finish(campaign, seen, time.monotonic() - started, as_json)
    if stopped:
        raise typer.Exit(INTERRUPTED)


def _own_code(study: Study, modules: Path | None) -> Path | None:
    """The folder of the study's own networks, if it has any, and a word on it: their code will run."""
    if not study.own_networks:
        return None
    folder = (modules or study.path.parent).absolute()
    if not folder.is_dir():
        raise InputError("there is no such folder", where=f"--modules {folder}")
    console(stderr=True).print(
        f"{', '.join(study.own_networks)}: the ranks run code from {folder}", markup=False, soft_wrap=True
    )
    return folder


def _selected(trials: list[Trial], ids: list[str] | None) -> list[Trial]:
    if not ids:
        return trials
    missing = [one for one in ids if one not in {trial.id for trial in trials}]
    if missing:
        raise InputError(f"the study has no trial {missing[0]!r}", where="--trial", hint="`--dry-run` lists the ids")
    return [trial for trial in trials if trial.id in ids]


def _check_environments(trials: list[Trial]) -> None:
    """A missing environment is better said now than in every record."""
    from steplab.core.feasible import resolve
    from steplab.runner import environments

    for framework, name in sorted({(r.framework, r.environment) for r in (resolve(t.config) for t in trials)}):
        environments.find(framework, name)


def _warn_of_open_doors(study: Study) -> None:
    """Ranks that others can reach are worth a word before they run."""
    from steplab.runner.private_network import obstacle, open_doors

    doors = open_doors(study)
    if doors:
        console(stderr=True).print(
            f"warning: ranks get no private network here ({obstacle()}), so others can reach them while a trial of "
            f"several workers runs, without a password. {'. '.join(doors)}. See docs/security.md",
            markup=False,
            soft_wrap=True,
        )


def _set_aside(folder: StudyFolder, trials: list[Trial], retry_failed: bool) -> Overview:
    """Put aside what is no record, and failed trials if they are to run again; what lies in the folder."""
    from steplab.cli._left_out import tell
    from steplab.store import records
    from steplab.store.overview import overview

    seen = overview(folder)
    for name in seen.damaged:
        records.put_damaged_aside(folder, name)
    tell(seen.damaged.values(), f"put into {folder.damaged}")
    tell(seen.strangers)
    for trial in trials if retry_failed else ():
        if trial.id in seen.briefs and seen.briefs[trial.id].status not in ("ok", "unsupported"):
            records.supersede(folder, trial.id)
    return seen


def _run(campaign: Campaign, limit: int | None, expected_s: float | None, quiet: bool) -> bool:
    """Run with a progress bar; whether a person stopped it."""
    from steplab.runner.interrupts import listening
    from steplab.store import records

    done = records.done(campaign.folder) & {trial.id for trial in campaign.trials}
    left = len(campaign.trials) - len(done)
    with _progress(left if limit is None else min(left, limit), expected_s, quiet) as bar:
        campaign.on_start, campaign.on_record, campaign.look_around = bar.start, bar.record, bar.refresh
        campaign.on_epoch = bar.epoch
        with listening(bar.stopping) as stop:
            campaign.run(stop, limit)
    return stop.asked


class _Bar:
    """The progress of a campaign: done, failed, time left. Drawn only when something happens, or once a second."""

    def __init__(self, progress: Progress, total: int, expected_s: float | None) -> None:
        self.progress, self.total, self.failed = progress, total, 0
        self.task = progress.add_task("starting", total=total, failed="", left=_left(expected_s))
        self.began, self.finished = time.monotonic(), 0

    def start(self, trial: Trial) -> None:
        from steplab.core.trial import describe

        self.progress.update(self.task, description=describe(trial.config))
        self.progress.refresh()

    def epoch(self, trial: Trial, epoch: int) -> None:
        from steplab.core.trial import describe

        self.progress.update(self.task, description=f"epoch {epoch} done, {describe(trial.config)}")
        self.progress.refresh()

    def record(self, record: Record) -> None:
        self.finished += 1
        if record.status != "ok":
            self.failed += 1
            self.progress.console.print(f"{record.status}: {record.reason} ({record.trial})", markup=False)
        self.progress.update(self.task, advance=1, failed=f"{self.failed} failed" if self.failed else "")
        self.refresh()

    def refresh(self) -> None:
        if self.finished:
            passed, open_ = time.monotonic() - self.began, self.total - self.finished
            told = _left(passed / self.finished * open_) if open_ else f"in {shown(passed)}"
            self.progress.update(self.task, left=told)
        self.progress.refresh()

    def stopping(self) -> None:
        self.progress.console.print("ending after this trial; Ctrl-C again ends at once")


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"about {shown(seconds)} left"


@contextmanager
def _progress(total: int, expected_s: float | None, quiet: bool) -> Iterator[_Bar]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("[red]{task.fields[failed]}"))
    texts: tuple[TextColumn, ...] = (
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.description}", markup=True),
    )
    terminal = console(stderr=True)
    with Progress(*columns, *texts, console=terminal, auto_refresh=False, disable=quiet, transient=False) as progress:
        yield _Bar(progress, total, expected_s)


def _finish(campaign: Campaign, before: Overview, seconds: float, as_json: bool) -> None:
    from steplab.cli._plan import summary
    from steplab.store.overview import overview

    seen = overview(campaign.folder, before=before)
    counts = summary(campaign.folder, [trial.id for trial in campaign.trials], seen)
    document = counts | {"seconds": round(seconds, 3)}
    if as_json:
        print_json(document)
    else:
        show = console()
        show.print(
            f"{document['ok']} ok, {document['failed']} failed, {document['left']} left of {document['trials']} trials "
            f"in {campaign.folder.root}",
            markup=False,
        )
        next_step(f"steplab analyze {campaign.folder.root}")
    if document["failed"]:
        raise typer.Exit(3)

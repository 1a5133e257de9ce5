"""What became faster or slower between two studies, before and after an upgrade."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import steplab
from steplab.cli._left_out import tell
from steplab.cli._output import JsonOption, command_app, console, filled_table, next_step, print_json, shell, table
from steplab.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steplab.api.results.difference import Change

app = command_app()
SHOWN = 20
SLOWER = 3


@app.command(epilog="Example: steplab diff runs/demo runs/upgraded --fail-above 5%")
def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="The folder of a study.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The folder of the study to compare with it.")],
    fail_above: Annotated[
        str, typer.Option("--fail-above", metavar="5%", help="Exit with 3 if a larger slow-down is beyond doubt.")
    ] = "",
    every: Annotated[bool, typer.Option("--all", help=f"Show all configurations, not only {SHOWN}.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the step times of two studies of the same configurations.

    Configurations are matched by their factors; a factor that has one level here and another one there (such as the
    environment) is what was changed. The ratio is after / before. What is called slower or faster holds for all
    configurations together: where nothing changed, that is said of one comparison of studies in twenty at most.

    Exit code 3: with --fail-above, a slow-down of a configuration or of the mean of all is beyond doubt larger.

    Example: steplab diff runs/demo runs/upgraded --fail-above 5%
    """
    allowed = _share(fail_above) if fail_above else None
    studies = steplab.open(before), steplab.open(after)
    difference = steplab.diff(*studies, allowed)
    for study in studies:
        tell(study.unreadable)
    if as_json:
        print_json(difference.document())
    else:
        _show(difference, None if every else SHOWN)
        next_step(shell("steplab", "analyze", after))
    if difference.too_slow:
        raise typer.Exit(SLOWER)


def _share(text: str) -> float:
    """A slow-down as a share: 5% is 0.05, and so is 0.05."""
    try:
        return float(text.rstrip("% ")) / (100 if text.rstrip().endswith("%") else 1)
    except ValueError:
        raise InputError(f"{text!r} is not a share", where="--fail-above", hint="write it like 5%") from None


def _show(compared: steplab.StudyDifference, most: int | None) -> None:
    from steplab.api.results.difference import COLUMNS, cells, label

    screen, difference = console(), compared.difference
    for sentence in compared.sentences:
        screen.print(sentence, markup=False)
    rows = _most_changed(difference.changes, most)
    if rows:
        heading = ", ".join(difference.varied) or "configuration"
        body = [[label(change, difference.varied), *cells(change)] for change in rows]
        screen.print(filled_table([heading, *COLUMNS], body))
    if len(rows) < len(difference.changes):
        screen.print(f"… and {len(difference.changes) - len(rows)} more (--all shows them)")
    if difference.surroundings:
        body = [[change.what, change.before or "-", change.after or "-"] for change in difference.surroundings]
        screen.print(table(["what else differs", "before", "after"], body, left=3))


def _most_changed(changes: Sequence[Change], most: int | None) -> Sequence[Change]:
    """What is sure, then the largest changes, the slowest first."""
    if most is None or len(changes) <= most:
        return changes
    chosen = sorted(changes, key=lambda change: (not change.verdict, -max(change.ratio, 1 / change.ratio)))[:most]
    return [change for change in changes if change in chosen]

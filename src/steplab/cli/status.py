"""What of a study is done, failed, unsupported, doubtful and left, with the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table

if TYPE_CHECKING:
    from steplab.core.record import Record

    Said = tuple[Record, str, str]  # a record, one word on it, and why

app = command_app()
SHOWN = 20


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    as_json: JsonOption = False,
) -> None:
    """Count the trials of a study and name what went wrong.

    Example: steplab status runs/demo
    """
    from steplab.cli._plan import own_trials, summary
    from steplab.core.study_file import read_study
    from steplab.core.trial import UNSUPPORTED, is_failure
    from steplab.runner import leftovers
    from steplab.store import records
    from steplab.store.columns import trial_row
    from steplab.store.paths import StudyFolder

    leftovers.sweep()
    place = StudyFolder(folder)
    place.must_exist()
    study = read_study(place.study)
    done = list(records.all_records(place))
    counts = summary(place, *own_trials(study, {record.trial for record in done}))
    document = counts | {"seconds": round(sum(record.seconds for record in done), 3)}
    failed = [record for record in done if is_failure(record.status)]
    refused = [record for record in done if record.status == UNSUPPORTED]
    rows = [(record, trial_row(record)) for record in done if record.status == "ok"]
    doubted = [(record, row["verdict"], row["doubts"]) for record, row in rows if row["doubts"]]
    document |= {"doubtful": len(doubted), "bad": sum(verdict == "bad" for _, verdict, _ in doubted)}
    if as_json:
        doubts = [{"trial": r.trial, "verdict": word, "doubts": text, "config": r.config} for r, word, text in doubted]
        print_json(document | {"failures": _reasons(failed), "refusals": _reasons(refused), "doubts": doubts})
        return
    _show(document, [(r, r.status, r.reason) for r in (*failed, *refused)], doubted)
    next_step(f"steplab run {place.study} --out {folder}" if document["left"] else f"steplab analyze {folder}")


def _reasons(records: Sequence[Record]) -> list[dict[str, Any]]:
    return [{"trial": r.trial, "status": r.status, "reason": r.reason, "config": r.config} for r in records]


def _show(document: dict[str, Any], unmeasured: Sequence[Said], doubted: Sequence[Said]) -> None:
    """Counts first, then what went wrong and what is doubtful."""
    from steplab.cli._plan import count_words
    from steplab.core.trial import describe
    from steplab.core.units import seconds as shown

    show = console()
    show.print(f"{count_words(document)}; {shown(document['seconds'])} of measuring")
    if doubted:
        show.print(f"{document['doubtful']} of the measured trials are doubtful, {document['bad']} of these bad")
    for names, said in ((("status", "reason"), unmeasured), (("verdict", "doubts"), doubted)):
        if said:
            rows = [[word, text, describe(record.config)] for record, word, text in said[:SHOWN]]
            show.print(table([*names, "configuration"], rows, left=3))

"""What of a study is done, failed, unsupported, doubtful and left, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table

if TYPE_CHECKING:
    from steplab.core.record import Head

    Said = tuple[Head, str, str]  # a record, one word on it, and why

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
    from steplab.cli._left_out import tell
    from steplab.cli._plan import own_trials, summary
    from steplab.core.trial import UNSUPPORTED, is_failure
    from steplab.runner.ranks import leftovers
    from steplab.store.brief import judged
    from steplab.store.overview import overview
    from steplab.store.paths import StudyFolder
    from steplab.store.records import read_heads
    from steplab.study.file import read_study

    leftovers.sweep()
    place = StudyFolder(folder)
    place.must_exist()
    study = read_study(place.study, place.read)
    seen = overview(place, judged)
    tell(seen.problems)
    briefs = seen.briefs
    trials, own = own_trials(study, briefs.keys())
    failed = sorted(trial for trial, brief in briefs.items() if is_failure(brief.status))
    refused = sorted(trial for trial, brief in briefs.items() if brief.status == UNSUPPORTED)
    doubted = sorted(trial for trial, brief in briefs.items() if brief.doubts)
    document = summary(place, trials, [briefs[trial] for trial in own]) | {
        "seconds": round(sum(brief.seconds for brief in briefs.values()), 3),
        "doubtful": len(doubted),
        "bad": sum(briefs[trial].verdict == "bad" for trial in doubted),
        "unjudged": seen.unjudged,
    }
    if as_json:
        lists = {"failures": _reasons(read_heads(place, failed)), "refusals": _reasons(read_heads(place, refused))}
        doubts = [{"trial": h.trial, "verdict": briefs[h.trial].verdict, "doubts": briefs[h.trial].doubts,
                   "config": h.config} for h in read_heads(place, doubted)]  # fmt: skip
        print_json(document | lists | {"doubts": doubts, "unreadable": seen.problems})
        return
    unmeasured = [(head, head.status, head.reason) for head in read_heads(place, [*failed, *refused][:SHOWN])]
    doubts_of = [(h, str(briefs[h.trial].verdict), briefs[h.trial].doubts) for h in read_heads(place, doubted[:SHOWN])]
    _show(document, unmeasured, doubts_of)
    if seen.unjudged:
        console().print(f"the times of {seen.unjudged} trials were not looked at: `steplab analyze {folder}` does")
    next_step(f"steplab run {place.study} --out {folder}" if document["left"] else f"steplab analyze {folder}")


def _reasons(heads: Iterable[Head]) -> list[dict[str, Any]]:
    return [{"trial": h.trial, "status": h.status, "reason": h.reason, "config": h.config} for h in heads]


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
            rows = [[word, text, describe(head.config)] for head, word, text in said]
            show.print(table([*names, "configuration"], rows, left=3))

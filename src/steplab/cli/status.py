"""What of a study is done, failed and left, with the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table

app = command_app()


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    as_json: JsonOption = False,
) -> None:
    """Count the trials of a study and name what went wrong.

    Example: steplab status runs/demo
    """
    from steplab.cli._plan import summary
    from steplab.core.study_file import read_study
    from steplab.core.trial import Trial, describe
    from steplab.core.units import seconds as shown
    from steplab.design.plan import plan
    from steplab.store import records
    from steplab.store.paths import StudyFolder

    place = StudyFolder(folder)
    place.must_exist()
    study = read_study(place.study)
    done = list(records.all_records(place))
    trials = [Trial(record.config, record.replicate) for record in done] if study.imported else plan(study)
    document = summary(place, trials) | {"seconds": round(sum(record.seconds for record in done), 3)}
    failed = [record for record in done if record.status != "ok"]
    if as_json:
        reasons = [{"trial": r.trial, "status": r.status, "reason": r.reason, "config": r.config} for r in failed]
        print_json(document | {"failures": reasons})
        return
    show = console()
    show.print(
        f"{document['ok']} ok, {document['failed']} failed, {document['left']} left of {document['trials']} trials; "
        f"{shown(document['seconds'])} of measuring"
    )
    if failed:
        rows = [[r.status, r.reason, describe(r.config)] for r in failed[:20]]
        show.print(table(["status", "reason", "configuration"], rows, left=3))
    if document["left"]:
        next_step(f"steplab run {place.study} --out {folder}")
    else:
        next_step(f"steplab analyze {folder}")

"""Scan the penalty of the generic model: accuracy and parameters against λ, for L1 and L2."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import steplab
from steplab.cli._life import working
from steplab.cli._options import listed
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table
from steplab.cli._roles import (
    CategoricalOption,
    ExtrinsicOption,
    IntrinsicOption,
    SourceArgument,
    TargetOption,
    again,
    tell,
)

app = command_app()


@app.command(epilog="Example: steplab penalty times.csv --target t_iter --plot penalty.html")
def penalty(
    source: SourceArgument,
    target: TargetOption = None,
    intrinsic: IntrinsicOption = "",
    categorical: CategoricalOption = "",
    extrinsic: ExtrinsicOption = "",
    loss: Annotated[str, typer.Option(help="absolute, relative or squared.")] = "absolute",
    plot: Annotated[Path | None, typer.Option(help="Write the scan as an HTML page.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Scan λ from 1e-6 to 10 for L1 and L2 penalties of the generic model, judged on held-out folds.

    Example: steplab penalty times.csv --target t_iter --extrinsic batch_size,workers --plot penalty.html
    """
    with working("fitting generic with each λ"):
        scan = steplab.scan_penalty(
            source, target,
            intrinsic=listed(intrinsic), categorical=listed(categorical), extrinsic=listed(extrinsic), loss=loss,
        )  # fmt: skip
    if plot is not None:
        scan.write(plot)
    tell(scan.notes)
    if as_json:
        print_json(scan.document() | {"plot": None if plot is None else str(plot)})
        return
    console().print(table(scan.columns, scan.cells))
    rest = again(source, target, intrinsic, categorical, extrinsic)
    next_step(f"steplab fit {rest} --penalty {scan.best} --out model.json")

"""Scan the penalty of the generic model: accuracy and parameters against λ, for L1 and L2."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, table
from steplab.cli._roles import (
    CategoricalOption,
    ExtrinsicOption,
    IntrinsicOption,
    SourceArgument,
    TargetOption,
    again,
    load,
    tell,
)

if TYPE_CHECKING:
    from steplab.models.judging.penalty_scan import ScanRow

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
    from dataclasses import asdict

    from steplab.models.judging.penalty_scan import scan

    chosen = load(source, target, intrinsic, categorical, extrinsic)
    rows = scan(chosen.X, chosen.y.to_numpy(float), chosen.roles, chosen.groups, loss=loss)
    best = max(rows, key=lambda row: row.r2)
    if plot is not None:
        _write_plot(rows, plot)
    tell(chosen.notes)
    if as_json:
        print_json({"rows": [asdict(row) for row in rows], "best": f"{best.penalty}:{best.strength:g}",
                    "plot": None if plot is None else str(plot)})  # fmt: skip
        return
    console().print(table(["penalty", "λ", "R²", "MAPE %", "Σ|power|"], [_cells(row) for row in rows]))
    rest = again(source, target, intrinsic, categorical, extrinsic)
    next_step(f"steplab fit {rest} --penalty {best.penalty}:{best.strength:g} --out model.json")


def _cells(row: ScanRow) -> list[str]:
    powers = sum(abs(v) for name, v in row.parameters.items() if name.endswith((".p", ".q")))
    return [row.penalty, f"{row.strength:g}", f"{row.r2:.4f}", f"{row.mape:.2f}", f"{powers:.3g}"]


def _figure(rows: list[ScanRow]) -> Any:
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=3, cols=2, shared_xaxes=True, column_titles=["L1", "L2"],
                           row_titles=["R² held out", "powers", "coefficients"])  # fmt: skip
    for column, kind in enumerate(("l1", "l2"), start=1):
        own = [row for row in rows if row.penalty == kind]
        x = [row.strength for row in own]
        figure.add_scatter(x=x, y=[row.r2 for row in own], name=f"R² {kind}", row=1, col=column)
        for name in own[0].parameters:
            at = 2 if name.endswith((".p", ".q")) else 3
            y = [row.parameters[name] for row in own]
            figure.add_scatter(x=x, y=y, name=name, legendgroup=name, showlegend=column == 1, row=at, col=column)
    figure.update_xaxes(type="log", title_text="λ", row=3)
    figure.update_layout(title="Penalty scan of the generic model", height=900)
    return figure


def _write_plot(rows: list[ScanRow], path: Path) -> None:
    from steplab.store.records import write_file

    write_file(path, _figure(rows).to_html(include_plotlyjs=True).encode())

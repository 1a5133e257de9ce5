"""Scanning the penalty of the generic model: accuracy and parameters against λ, for L1 and L2."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from steplab.api import display
from steplab.api.modelling.rows import Columns, RowSource, training_rows
from steplab.models.judging.penalty_scan import ScanRow, scan
from steplab.store.records import write_file

if TYPE_CHECKING:
    import plotly.graph_objects as go

POWERS = (".p", ".q")  # how the names of powers end


@dataclass(frozen=True, repr=False)
class PenaltyScan:
    """The scan: one row for each penalty and strength."""

    columns: ClassVar[tuple[str, ...]] = ("penalty", "λ", "R²", "MAPE %", "Σ|power|")

    rows: tuple[ScanRow, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> str:
        """The penalty that predicts held-out rows best, as `fit` takes it: `l2:0.001`."""
        row = max(self.rows, key=lambda row: row.r2)
        return f"{row.penalty}:{row.strength:g}"

    @property
    def cells(self) -> list[list[str]]:
        """The rows of a table of `columns`."""
        return [
            [row.penalty, f"{row.strength:g}", f"{row.r2:.4f}", f"{row.mape:.2f}", f"{_powers(row):.3g}"]
            for row in self.rows
        ]

    def document(self) -> dict[str, Any]:
        """What `steplab penalty --json` prints, but for the plot."""
        return {"rows": [asdict(row) for row in self.rows], "best": self.best}

    def figure(self) -> go.Figure:
        """The scan as a Plotly figure."""
        from plotly.subplots import make_subplots

        figure = make_subplots(rows=3, cols=2, shared_xaxes=True, column_titles=["L1", "L2"],
                               row_titles=["R² held out", "powers", "coefficients"])  # fmt: skip
        for column, kind in enumerate(("l1", "l2"), start=1):
            _draw(figure, [row for row in self.rows if row.penalty == kind], kind, column)
        figure.update_xaxes(type="log", title_text="λ", row=3)
        figure.update_layout(title="Penalty scan of the generic model", height=900)
        return figure

    def write(self, path: Path | str) -> None:
        """Write the figure as an HTML page."""
        write_file(Path(path), self.figure().to_html(include_plotlyjs=True).encode())

    def __repr__(self) -> str:
        return f"<PenaltyScan of {len(self.rows)} penalties: best {self.best}>"

    def _repr_html_(self) -> str:
        return display.block(display.sentence(f"best: {self.best}"), display.table(self.columns, self.cells))


def _powers(row: ScanRow) -> float:
    return sum(abs(value) for name, value in row.parameters.items() if name.endswith(POWERS))


def _draw(figure: go.Figure, rows: list[ScanRow], kind: str, column: int) -> None:
    """The scan of one kind of penalty, in its column of the figure."""
    x = [row.strength for row in rows]
    figure.add_scatter(x=x, y=[row.r2 for row in rows], name=f"R² {kind}", row=1, col=column)
    for name in rows[0].parameters:
        at = 2 if name.endswith(POWERS) else 3
        y = [row.parameters[name] for row in rows]
        figure.add_scatter(x=x, y=y, name=name, legendgroup=name, showlegend=column == 1, row=at, col=column)


def scan_penalty(
    source: RowSource,
    target: str | None = None,
    *,
    intrinsic: Columns = (),
    categorical: Columns = (),
    extrinsic: Columns = (),
    loss: str = "absolute",
) -> PenaltyScan:
    """Scan λ from 1e-6 to 10 for L1 and L2 penalties of the generic model, judged on held-out folds."""
    chosen = training_rows(source, target, intrinsic, categorical, extrinsic)
    rows = scan(chosen.X, chosen.y.to_numpy(float), chosen.roles, chosen.groups, loss=loss)
    return PenaltyScan(tuple(rows), chosen.notes)

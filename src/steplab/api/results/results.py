"""A study that was run, opened: its tables, and everything that can be made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from steplab.api import display
from steplab.api.measuring.status import StudyStatus, status
from steplab.store import records
from steplab.store.paths import StudyFolder
from steplab.study.file import read_study
from steplab.study.sections import Range, Study

if TYPE_CHECKING:  # what a method needs is imported when it is called: a look at the status waits for no pandas
    import pandas as pd

    from steplab.api.modelling.comparison import ModelComparison
    from steplab.api.modelling.fitting import FittedModel
    from steplab.api.modelling.penalty import PenaltyScan
    from steplab.api.modelling.predictions import At, Predictions
    from steplab.api.modelling.rows import Columns
    from steplab.api.results.export import Export
    from steplab.api.results.findings import Findings
    from steplab.api.results.report import WrittenReport
    from steplab.api.results.rooflines import Rooflines
    from steplab.costs.roofs import Ceilings
    from steplab.store.tables import Tables


def open(folder: Path | str) -> Results:
    """Open the folder of a study that was run or imported. Files are data: none of their content is run.

    A folder that is no study's raises a `RecordError`.
    """
    return Results(folder)


class Results:
    """What the folder of a study holds; `steplab.open` and `steplab.run` make it.

    The tables are read when they are first asked for, and stay as they were then: open the folder again to see records
    that have come since.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        StudyFolder(self.folder).must_exist()

    @cached_property
    def study(self) -> Study:
        """The study, as it was declared."""
        place = StudyFolder(self.folder)
        return read_study(place.study, place.read)

    @property
    def factors(self) -> tuple[str, ...]:
        """The columns of `trials` that are the study's factors."""
        return self.tables.factors

    @property
    def unreadable(self) -> tuple[str, ...]:
        """One sentence for each record that could not be read."""
        return self.tables.unreadable

    @cached_property
    def trials(self) -> pd.DataFrame:
        """One row for each trial: its configuration, how it ended, medians of its times in seconds."""
        return self.tables.trials.copy()  # whoever changes it changes no finding

    @cached_property
    def iterations(self) -> pd.DataFrame:
        """One row for each iteration of each rank."""
        frame: pd.DataFrame = self.tables.iterations.to_pandas()
        return frame

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row for each timed layer of each trial."""
        frame: pd.DataFrame = self.tables.layers.to_pandas()
        return frame

    @cached_property
    def epochs(self) -> pd.DataFrame:
        """One row for each epoch of each training."""
        frame: pd.DataFrame = self.tables.epochs.to_pandas()
        return frame

    @cached_property
    def tables(self) -> Tables:
        """All tables as they are stored, in Arrow's form where they are large; `tables.connection()` is for SQL."""
        from steplab.store.tables import load

        return load(self.folder)

    def status(self, most: int | None = None) -> StudyStatus:
        """How many trials are done, failed, unsupported, doubtful and left, and why; at most so many of each named."""
        return status(self.folder, most)

    def analyze(self) -> Findings:
        """Phases, speed-up, efficiency, imbalance, effects and noise, with confidence intervals."""
        from steplab.api.results.findings import analyze

        return analyze(self)

    def fit(
        self,
        model: str = "auto",
        target: str | None = None,
        *,
        intrinsic: Columns = (),
        categorical: Columns = (),
        extrinsic: Columns = (),
        options: Mapping[str, object] | None = None,
    ) -> FittedModel:
        """Fit a performance model to the finished trials; see `steplab.fit`."""
        from steplab.api.modelling.fitting import fit

        return fit(
            self, model, target, intrinsic=intrinsic, categorical=categorical, extrinsic=extrinsic, options=options
        )

    def compare(
        self,
        models: Columns = (),
        target: str | None = None,
        *,
        intrinsic: Columns = (),
        categorical: Columns = (),
        extrinsic: Columns = (),
        folds: int = 5,
        holdout: Columns = (),
        formulas: Columns = (),
    ) -> ModelComparison:
        """Compare performance models on rows that they have not seen; see `steplab.compare`."""
        from steplab.api.modelling.comparison import compare

        return compare(
            self, models, target, intrinsic=intrinsic, categorical=categorical, extrinsic=extrinsic, folds=folds,
            holdout=holdout, formulas=formulas,
        )  # fmt: skip

    def scan_penalty(
        self,
        target: str | None = None,
        *,
        intrinsic: Columns = (),
        categorical: Columns = (),
        extrinsic: Columns = (),
        loss: str = "absolute",
    ) -> PenaltyScan:
        """Scan the penalty of the generic model; see `steplab.scan_penalty`."""
        from steplab.api.modelling.penalty import scan_penalty

        return scan_penalty(self, target, intrinsic=intrinsic, categorical=categorical, extrinsic=extrinsic, loss=loss)

    def predict(self, at: At, model: str = "auto", target: str | None = None, level: float = 0.9) -> Predictions:
        """Predict configurations that nobody has run; fits the model first, so keep that of `fit` to ask it often."""
        return self.fit(model, target).predict(at, level)

    def report(
        self,
        path: Path | str | None = None,
        *,
        models: Columns = (),
        figures: Path | str | None = None,
        network: Path | str | None = None,
    ) -> WrittenReport:
        """Write the report: one page that opens anywhere; see `api.results.report.report`."""
        from steplab.api.results.report import report

        return report(self, path, models=models, figures=figures, network=network)

    def export(self, to: Path | str, table: str = "trials", trial: str = "") -> Export:
        """Write a table, a trial's timeline, or another program's run store; see `api.results.export.export`."""
        from steplab.api.results.export import export

        return export(self, to, table, trial)

    def roofline(
        self,
        machine: str | Ceilings = "",
        *,
        precision: str = "fp32",
        modules: Path | str | None = None,
        remeasure: bool = False,
    ) -> Rooflines:
        """Where layers and phases stand below the ceilings of this machine, or of a machine file."""
        from steplab.api.results.rooflines import roofline

        return roofline(self.folder, machine, precision=precision, modules=modules, remeasure=remeasure)

    def __repr__(self) -> str:
        return f"<Results {self.folder}: {len(records.done(StudyFolder(self.folder)))} records>"

    def _repr_html_(self) -> str:
        study = self.study
        rows = [(name, _levels(levels)) for name, levels in study.factors.items()]
        return display.block(
            display.title(study.about.name),
            display.sentence(study.about.description) if study.about.description else "",
            display.sentence(self.status(most=0)),
            display.table(("factor", "levels"), rows, left=2),
        )


def _levels(levels: Sequence[object] | Range) -> str:
    if isinstance(levels, Range):
        return f"{levels.low} to {levels.high} ({levels.scale})"
    return ", ".join(map(str, levels))

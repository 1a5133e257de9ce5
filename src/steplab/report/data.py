"""What a report shows, gathered into one object; nothing here opens a file or draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd
import pyarrow as pa

from steplab.analysis.roofline.points import Roofline
from steplab.analysis.sentences import sentences
from steplab.analysis.study import Analysis
from steplab.analysis.summary import Group
from steplab.core.trial import Level, plain_level
from steplab.models.formulas.formula import Formula
from steplab.report.answer import AnswerSentence, on_page
from steplab.report.modelling import Modelled
from steplab.report.planned import Planned
from steplab.report.ranks import RankTimes, rank_times

MOST_NOTES = 3
MOST_SENTENCES = 6  # of an answer with models; its findings are never left out


@dataclass(frozen=True)
class Unmeasured:
    """A trial without times, because it failed or is unsupported, with the end of its log."""

    trial: str
    status: str
    reason: str
    config: str
    log_tail: str = ""


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from and how to get them again."""

    study_text: str
    machine: Mapping[str, Level | None]
    versions: Mapping[str, str]
    command: str
    data: str
    started: str
    samples: Mapping[str, int] = field(default_factory=dict)  # of each data set that was read
    commands: tuple[str, ...] = ()  # that repeat the study and its analysis
    notes: tuple[str, ...] = ()  # what could not be read


@dataclass(frozen=True)
class Tabled:
    """The tables of a study that a report reads."""

    trials: pd.DataFrame
    iterations: pa.Table
    raw_layers: pa.Table
    factors: tuple[str, ...]

    @cached_property
    def layers(self) -> pd.DataFrame:
        """Every timed layer."""
        frame: pd.DataFrame = self.raw_layers.to_pandas()
        return frame


@dataclass(frozen=True)
class NetworkSliders:
    """A step over a network as a formula, for the page's sliders: how far they go, and how sure it is."""

    name: str
    formula: Formula
    ranges: Mapping[str, tuple[float, float]]
    doubt: float  # a standard error, as a ratio's logarithm
    command: str  # the same in a terminal, before `--at`


@dataclass(frozen=True)
class ReportData:
    """Everything a report shows."""

    title: str
    description: str
    analysis: Analysis
    answer: list[AnswerSentence]
    trials: pd.DataFrame
    factors: tuple[str, ...]
    ranks: RankTimes | None
    unmeasured: list[Unmeasured]
    provenance: Provenance
    models: Modelled
    roofline: Roofline | None = None
    planned: Planned = field(default_factory=Planned)
    network: NetworkSliders | None = None
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # findings to print below a chart, by its id


def gather(
    title: str, description: str, analysis: Analysis, tables: Tabled, provenance: Provenance, models: Modelled,
    logs: Mapping[str, str], roofline: Roofline | None = None, planned: Planned | None = None,
) -> ReportData:  # fmt: skip
    """Gather a report's content from a study's tables, its models and the logs of failed trials."""
    return ReportData(
        title=title,
        description=description,
        analysis=analysis,
        answer=_answer(analysis, models),
        trials=tables.trials,
        factors=tables.factors,
        ranks=rank_times(tables.trials, tables.iterations, analysis.varied),
        unmeasured=_unmeasured(tables.trials, tables.factors, logs),
        provenance=provenance,
        models=models,
        roofline=roofline,
        planned=planned or Planned(),
        notes=_notes(analysis, tables, roofline) | _model_notes(models) | _plan_notes(planned),
    )


def _notes(analysis: Analysis, tables: Tabled, roofline: Roofline | None) -> dict[str, tuple[str, ...]]:
    """What the analysis says about what a chart shows, the gravest first."""
    uneven = analysis.imbalance[:MOST_NOTES]
    rows = tables.trials.set_index("trial") if uneven else tables.trials
    named = {
        finding.trial: ", ".join(f"{n}={plain_level(rows.at[finding.trial, n])}" for n in analysis.varied)
        for finding in uneven
    }
    return {
        "speed-up": tuple(
            f"{of_levels(finding.factors, analysis.varied)}: {finding.answer}" for finding in analysis.why[:MOST_NOTES]
        ),
        "imbalance": tuple(f"{named.get(finding.trial, finding.trial)}: {finding.sentence}." for finding in uneven),
        "roofline": () if roofline is None else (roofline.title, *roofline.notes),
    }


def _model_notes(models: Modelled) -> dict[str, tuple[str, ...]]:
    """What the models say, below the charts that show it."""
    return {evidence: (text,) for text, evidence in models.sentences()}


def _plan_notes(planned: Planned | None) -> dict[str, tuple[str, ...]]:
    """What was decided, below the chart that shows it."""
    return {} if planned is None or planned.workers is None else {"workers-worth": (f"{planned.workers.why}.",)}


def measured(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that ended well with a time."""
    return trials[(trials["status"] == "ok") & (trials["t_iter"] > 0)] if len(trials) else trials


def label(group: Group, names: tuple[str, ...]) -> str:
    """A configuration by the factors that vary."""
    return of_levels(group.factors, names)


def of_levels(levels: Mapping[str, Level], names: tuple[str, ...]) -> str:
    """The levels of those factors, as sentences name a configuration."""
    return ", ".join(f"{name}={levels[name]}" for name in names if name in levels) or "all"


def _answer(analysis: Analysis, models: Modelled) -> list[AnswerSentence]:
    """All findings, which answer first and say last how far to trust them; before that the models, if there is room."""
    findings = [on_page(sentence) for sentence in sentences(analysis)]
    told = [AnswerSentence(text, evidence) for text, evidence in models.sentences()]
    return [*findings[:-1], *told[: max(MOST_SENTENCES - len(findings), 0)], findings[-1]]


def _unmeasured(trials: pd.DataFrame, factors: tuple[str, ...], logs: Mapping[str, str]) -> list[Unmeasured]:
    if not len(trials):
        return []
    rows = trials[trials["status"] != "ok"]
    return [
        Unmeasured(
            str(row["trial"]), str(row["status"]), str(row["reason"]),
            ", ".join(f"{n}={row[n]}" for n in factors if n in row), logs.get(str(row["trial"]), ""),
        )
        for row in rows.to_dict("records")
    ]  # fmt: skip

"""What a study found out: sentences, tables, charts; with intervals, and with how far to trust them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from steplab.analysis.effects.sentences import TABLE_COLUMNS, describe, table_rows
from steplab.analysis.labels import label
from steplab.analysis.latency import Inference, Latency
from steplab.analysis.precision import PrecisionGain
from steplab.analysis.scaling.series import Estimate, Scaling
from steplab.analysis.scaling.why import Why
from steplab.analysis.sentences import sentences
from steplab.analysis.statistics.intervals import Interval
from steplab.analysis.study import Analysis, analyse
from steplab.analysis.summary import Group
from steplab.analysis.training import AccuracyCurve, TimeToAccuracy, Training
from steplab.analysis.training_sentences import not_compared
from steplab.analysis.utilisation import Rate, Utilisation
from steplab.api import display
from steplab.api.results.step_work import with_step_work
from steplab.core.units import count, seconds, span

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from steplab.api.study_data import StudyData

__all__ = [
    "TABLE_COLUMNS", "AccuracyCurve", "Analysis", "Estimate", "Findings", "Group", "Inference", "Interval", "Latency",
    "PrecisionGain", "Rate", "Scaling", "TimeToAccuracy", "Training", "Utilisation", "Why",
    "analyze", "describe", "label", "not_compared", "sentences", "table_rows",
]  # fmt: skip
SHOWN = 15  # configurations in a notebook


@dataclass(frozen=True, repr=False)
class Findings:
    """The findings of a study: `sentences` answer first, `configurations` is a table, `figure` draws a chart.

    `analysis` holds everything as typed objects: groups, effects, noise, scaling, why, frameworks, imbalance.
    """

    data: StudyData
    analysis: Analysis

    @property
    def sentences(self) -> list[str]:
        """Three to six sentences that answer first."""
        return [str(sentence) for sentence in sentences(self.analysis)]

    @cached_property
    def configurations(self) -> pd.DataFrame:
        """One row for each configuration, the highest throughput first; times in seconds."""
        rows = [_flat(group) for group in self.analysis.groups]
        return pd.DataFrame(rows)

    def figure(self, name: str = "step-time") -> go.Figure:
        """A chart of the report as a Plotly figure; `figures` lists their names."""
        from steplab.api.results.charts import figure

        return figure(self, name)

    @property
    def figures(self) -> list[str]:
        """The names of the charts that the study has data for."""
        from steplab.api.results.charts import names

        return names(self)

    def document(self) -> dict[str, Any]:
        """What `steplab analyze --json` prints."""
        analysis = self.analysis
        return {
            "groups": [_group(group) for group in analysis.groups],
            "effects": analysis.effects,
            "designed": analysis.designed,
            "layers": analysis.layers,
            "imbalance": [asdict(trial) | {"sentence": trial.sentence} for trial in analysis.imbalance],
            "noise": analysis.noise,
            "scaling": analysis.scaling,
            "why": analysis.why,
            "precision": [
                asdict(gain) | {"verdict": gain.verdict, "sentence": gain.sentence(analysis.varied)}
                for gain in analysis.precision
            ],
            "frameworks": analysis.frameworks,
            "ranking": analysis.ranking,
            "fair": [asdict(comparison) | {"sentence": comparison.sentence} for comparison in analysis.fair],
            "unexplained": analysis.unexplained,
            "trials": analysis.trials,
            "failed": analysis.failed,
            "unsupported": analysis.unsupported,
            "training": analysis.training,
            "inference": analysis.inference,
            "dependent": [asdict(factor) | {"sentence": factor.sentence} for factor in analysis.dependent],
            "independence": asdict(analysis.independence) | {"sentences": analysis.independence.sentences},
            "sentences": self.sentences,
            "unreadable": self.data.tables.unreadable,
        }

    def __repr__(self) -> str:
        about = f"{len(self.analysis.groups)} configurations of {self.analysis.trials} trials"
        return f"<Findings {self.data.folder}: {about}, {self.analysis.noise.verdict}>"

    def _repr_html_(self) -> str:
        groups = self.analysis.groups[:SHOWN]
        return display.block(
            *map(display.sentence, self.sentences),
            display.bars([self._bar(group) for group in groups]),
            display.table(("configuration", "step", "95 %", "samples/s", "speed-up", "efficiency", "LIF"),
                          [self._row(group) for group in groups]),
            display.rest(len(self.analysis.groups) - SHOWN),
        )  # fmt: skip

    def _label(self, group: Group) -> str:
        varied = [f"{name}={group.factors[name]}" for name in self.analysis.varied if name in group.factors]
        return ", ".join(varied) or "all"

    def _bar(self, group: Group) -> display.Bar:
        low, high = group.t_iter.ends or (None, None)
        return display.Bar(self._label(group), group.t_iter.median, low, high, seconds(group.t_iter.median))

    def _row(self, group: Group) -> list[object]:
        ends, speedup = group.t_iter.ends, group.speedup
        return [
            self._label(group), seconds(group.t_iter.median), span(*ends) if ends else None,
            None if group.throughput is None else count(group.throughput),
            f"{speedup.value:.2f}" if speedup else None,
            None if group.efficiency is None else f"{group.efficiency:.0%}",
            None if group.lif is None else f"{group.lif:.2f}",
        ]  # fmt: skip


def analyze(data: StudyData) -> Findings:
    """Analyse the tables of a study."""
    tables = data.tables
    trials = with_step_work(tables.trials, tables.factors, data.folder)
    return Findings(data, analyse(trials, tables.telling, tables.iterations, tables.layers, tables.epochs))


def _flat(group: Group) -> dict[str, Any]:
    """A configuration as a row of a table."""
    t, speedup = group.t_iter, group.speedup
    times = {"n": t.n, "t_iter": t.median, "t_iter_low": t.low, "t_iter_high": t.high}
    rates = {"throughput": group.throughput, "speedup": speedup.value if speedup else None}
    rest = {"efficiency": group.efficiency, "lif": group.lif, "observer_cost": group.observer_cost}
    return {**group.factors, **times, **rates, **rest, **_used(group.utilisation), **group.phases}


def _used(used: Utilisation | None) -> dict[str, float | str | None]:
    """What is known of the utilisation, as columns of a table."""
    rates = {} if used is None else {
        "flops_per_s": used.flops_per_s, "utilisation": used.share, "tokens_per_s": used.tokens_per_s,
        "tokens_per_joule": used.tokens_per_joule,
    }  # fmt: skip
    told: dict[str, float | str | None] = {name: rate.value for name, rate in rates.items() if rate is not None}
    return told | ({"energy_provenance": used.energy_provenance} if used and used.energy_provenance else {})


def _group(group: Group) -> dict[str, Any]:
    t, s = group.t_iter, group.speedup
    return {
        "factors": group.factors,
        "n": t.n,
        "t_iter": {"median": t.median, "low": t.low, "high": t.high, "method": t.method},
        "phases": group.phases,
        "lif": group.lif,
        "throughput": group.throughput,
        "observer_cost": group.observer_cost,
        "speedup": s.value if s else None,
        "speedup_low": s.low if s else None,
        "speedup_high": s.high if s else None,
        "efficiency": group.efficiency,
        "utilisation": group.utilisation,
    }

"""The tables of `steplab analyze` that answer what a study asks: time to accuracy, latency, other precisions."""

from __future__ import annotations

from collections.abc import Sequence

from steplab.api.results.findings import Analysis, Interval, Latency, PrecisionGain, TimeToAccuracy
from steplab.cli._output import console, filled_table, table
from steplab.core.trial import Level
from steplab.core.units import count, ends, seconds, span

STANDINGS = {"soonest": "soonest", "not told apart": "not told apart", "later": "later",
             "some runs": "some runs only", "not reached": "not reached"}  # fmt: skip


def accuracy_table(analysis: Analysis, most: int | None) -> None:
    """Time to the target accuracy of each configuration, the soonest first."""
    training = analysis.training
    if training is None:
        return
    names = analysis.varied
    columns = [_heading(names), "reached", "epochs", "time", "95 %", "best", "standing"]
    rows = [_accuracy_row(configuration, names, training.target) for configuration in training.configurations[:most]]
    goal = "no target" if training.target is None else f"target {training.target * 100:.3g} %"
    console().print(table(columns, rows, title=f"time to accuracy ({goal}; training without validation)"))
    _rest(len(training.configurations), most)


def _accuracy_row(row: TimeToAccuracy, names: Sequence[str], target: float | None) -> list[str]:
    epochs = row.epochs
    spread = "" if epochs is None or epochs.low == epochs.high else f" ({epochs.low:g}–{epochs.high:g})"
    return [
        _label(row.factors, names),
        "" if target is None else f"{row.reached} of {row.runs}",
        f"{row.trained_epochs}" if target is None else "" if epochs is None else f"{epochs.median:g}{spread}",
        seconds(row.trained_s) if target is None else "" if row.seconds is None else seconds(row.seconds.median),
        span(*row.seconds.ends) if row.seconds and row.seconds.ends else "",
        f"{row.best.median * 100:.1f} %",
        "" if target is None else STANDINGS[row.standing],
    ]


def precision_table(analysis: Analysis, most: int | None) -> None:
    """Steps in another precision against float32: time, roof, and the shares of both roofs that products reach."""
    precisions = {gain.precision for gain in analysis.precision}
    names = [name for name in analysis.varied if name != "precision" or len(precisions) > 1]
    columns = [_heading(names), "time", "95 %", "roof", "float32", "reached", "verdict"]
    rows = [_precision_row(gain, names) for gain in analysis.precision[:most]]
    title = f"{'/'.join(precisions)} against float32: time, roof of products, shares of both roofs reached"
    console().print(filled_table(columns, rows, title=title))
    _rest(len(analysis.precision), most)


def _precision_row(gain: PrecisionGain, names: Sequence[str]) -> list[str]:
    return [
        "all, on average" if gain.factors is None else _label({**gain.factors, "precision": gain.precision}, names),
        f"{gain.ratio:.2f}",
        "" if gain.low is None or gain.high is None else ends(gain.low, gain.high),
        "" if gain.roof_gain is None else f"{gain.roof_gain:.2f}",
        "" if gain.usual is None else f"{gain.usual.share:.0%}",
        "" if gain.reached is None else f"{gain.reached.share:.0%}",
        gain.verdict,
    ]


def latency_table(analysis: Analysis, most: int | None) -> None:
    """Quantiles of the latency, engines ranked within each setting."""
    inference = analysis.inference
    if inference is None:
        return
    names = analysis.varied
    latencies = inference.latencies
    columns = [_heading(names), "p50", "95 % interval", "p95", "p99", "samples/s", "standing"]
    rows = [_latency_row(latency, names) for latency in latencies[:most]]
    console().print(filled_table(columns, rows, title="latency of a batch"))
    _rest(len(latencies), most)


def _latency_row(latency: Latency, names: Sequence[str]) -> list[str]:
    return [
        _label(latency.factors, names),
        seconds(latency.p50.median),
        span(*latency.p50.ends) if latency.p50.ends else "",
        *(_median(value) for value in (latency.p95, latency.p99)),
        "" if latency.throughput is None else count(latency.throughput),
        latency.standing if "framework" in names else "",  # of engines: there is no other to compare with
    ]


def _median(value: Interval | None) -> str:
    return "" if value is None else seconds(value.median)


def _rest(rows: int, most: int | None) -> None:
    if most is not None and rows > most:
        console().print(f"… and {rows - most} more (--all shows them)")


def _heading(names: Sequence[str]) -> str:
    return ", ".join(names) or "configuration"


def _label(factors: dict[str, Level], names: Sequence[str]) -> str:
    return ", ".join(str(factors.get(name, "-")) for name in names)

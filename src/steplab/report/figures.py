"""The report's charts in their order, each with what is missing where a study has no data for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from steplab.report.charts import (
    deciding,
    effects,
    frameworks,
    imbalance,
    latency,
    layers,
    models,
    phases,
    scaling,
    times,
    training,
)  # fmt: skip
from steplab.report.data import ReportData
from steplab.report.drawing import Drawn


@dataclass(frozen=True)
class Chart:
    """A chart: its place in the page, how it is drawn, how to read it, and what it needs."""

    id: str
    title: str
    draw: Callable[[ReportData], Drawn | None]
    reading: str
    missing: str  # empty for what only studies of another kind have


CHARTS = (
    Chart(
        "time-to-accuracy", "Time to accuracy", training.time_to_accuracy,
        "Medians over a configuration's runs with 95 % intervals, the soonest on top; validation is not counted.", "",
    ),
    Chart(
        "accuracy-curves", "Accuracy on the way", training.accuracy_curves,
        "A line for each run, a mark for each look at the validation accuracy.", "",
    ),
    Chart(
        "latency", "Latency", latency.latency,
        "Quantiles of a batch's time, medians over replicates with 95 % intervals; each setting's lowest p50 first.",
        "",
    ),
    Chart(
        "frameworks", "Frameworks", frameworks.pairs,
        "Over all configurations that two frameworks share, with 95 % intervals; hollow: not told apart.", "",
    ),
    Chart(
        "step-time", "Step time", times.step_times,
        "Medians over a configuration's replicates with 95 % intervals, the highest throughput on top.",
        "No trial has been measured yet: run the study with `steplab run`.",
    ),
    Chart(
        "factors", "Step time by factor", times.by_factor,
        "Medians over all trials at a level, whatever the other factors were; bars are 95 % intervals of the median, "
        "for which a level of several configurations takes six trials.",
        "No factor takes more than one level: give a factor several levels in [factors].",
    ),
    Chart(
        "phases", "Where the time goes", phases.phases,
        "Bars are the phased step, diamonds the native one. What no phase explains is shown as t_other, never hidden.",
        "Phases were not measured: set phases = true in [measure] and run the study.",
    ),
    Chart(
        "speed-up", "Speed-up and efficiency", scaling.speedup,
        "Throughput against one worker of the same configuration, with 95 % intervals; dashed: ideal.",
        "Speed-up needs trials with one and with several workers: set workers = [1, 2, …] in [factors].",
    ),
    Chart(
        "communication", "Communication", phases.communication,
        "Waiting and moving come from the phased mode, hidden and exposed time from the overlap mode; medians.",
        "Communication needs phases of trials with several workers: set phases = true and workers = [1, 2, …].",
    ),
    Chart(
        "imbalance", "Imbalance by rank", imbalance.heat_map,
        "Forward and backward time of each rank in the trial with the greatest load imbalance factor.",
        "Imbalance needs phases of trials with several workers: set phases = true and workers = [1, 2, …].",
    ),
    Chart(
        "timeline", "Timeline of one step", imbalance.timeline,
        "A step of median length of the same trial: which rank computes, and which one waits for it.",
        "The timeline needs phases of trials with several workers: set phases = true and workers = [1, 2, …].",
    ),
    Chart(
        "layers", "Layers", layers.layers,
        "Median time of each layer in the network's order, in the configuration with the highest throughput.",
        "No layer was timed: set phases = true, and see `steplab env list` for frameworks that can time layers.",
    ),
    Chart(
        "roofline", "Roofline", layers.roofline,
        "Left of a roof's corner memory is the limit, right of it arithmetic; a point on the roof cannot be faster.",
        "No roofline: it needs layers timed on this CPU, and its ceilings; `steplab roofline DIR` measures them.",
    ),
    Chart(
        "effects", "Effects of the factors", effects.effects,
        "What changing one factor alone multiplies the step time by, with 95 % intervals; hollow: may be no effect.",
        "Effects need a factor with several levels and more trials than levels: add replicates.",
    ),
    Chart(
        "interactions", "Interactions", effects.interactions,
        "Where lines are not parallel, the effect of one factor depends on the other; whiskers are 95 % intervals.",
        "Interactions need two factors with two to eight levels each, in combinations that tell them apart.",
    ),
    Chart(
        "predicted", "Predicted against measured", models.predicted,
        "Every point is a trial; points on the dashed line are predicted exactly.",
        "No model could be fitted: models need a factor that varies and at least a handful of trials.",
    ),
    Chart(
        "penalty", "Penalty of the generic model", models.penalty,
        "How the accuracy on held-out rows and the powers change with the strength of the penalty.",
        "The penalty was not scanned: `steplab penalty DIR` does it (from a dozen trials on).",
    ),
    Chart(
        "forecast", "Scaling forecast", models.forecast,
        "Outside of the shaded range nobody has measured: the band widens, and the forecast is a guess.",
        "A forecast needs trials with at least two numbers of workers and a fitted model.",
    ),
    Chart(
        "workers-worth", "How many workers pay", deciding.workers,
        "Predicted throughput against the fewest workers; enough is where a further one brings less than half.", "",
    ),
    Chart(
        "narrowing", "What the design did not know", deciding.narrowing,
        "The uncertainty of the design's aim before each batch that it chose; the table tells why each trial.", "",
    ),
)  # fmt: skip

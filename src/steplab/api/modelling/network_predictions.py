"""Steps of several hosts predicted from one host's trials and a network profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplab.api import display
from steplab.api.modelling.network_calibration import calibration_of
from steplab.api.modelling.network_file import read_network
from steplab.core import placement
from steplab.core.errors import ModelError, nearest
from steplab.core.trial import SHARDED, accumulation
from steplab.core.units import seconds
from steplab.planning.network.compute import Tables, measured_compute
from steplab.planning.network.profile import Profile
from steplab.planning.network.sharded import predict_sharded
from steplab.planning.network.step import (
    LARGEST_K,
    USUAL,
    Layout,
    Method,
    StepPrediction,
    expect_same_framework,
    hiding_k,
    predict_step,
)
from steplab.planning.network.wires import Wires
from steplab.planning.predict import parse_configuration

if TYPE_CHECKING:
    from steplab.api.results.results import Results

# What a prediction is asked about; other names are factors of the study.
NUMBERS = ("workers", "nodes", "ranks_per_node", "accumulate", "bucket_mb", "times_bandwidth", "times_latency")
WORDS = ("rate", "strategy")
MOST = 1_000_000  # of any of the numbers
HIDDEN = 0.1  # of an iteration: what is exposed with the largest accumulation must be less to be called hidden
Configuration = Mapping[str, object] | str
UNCOMPARED = "sharded steps of several hosts have not been compared with such predictions: the interval allows for that"
UNSEEN = (
    "no sharded step of one host was measured, so compute and update are those of workers that keep all parameters, "
    'and the interval is wide: run strategy = "sharded" with workers = 2 on one host'
)


@dataclass(frozen=True)
class NetworkPrediction:
    """One configuration: what was asked, its step, and the accumulation that would hide the exchange."""

    at: dict[str, str]
    step: StepPrediction
    hiding: int | None  # none: no accumulation that is looked at would
    doubt: str = ""  # what a person should know of the prediction

    @property
    def described(self) -> str:
        """The configuration; workers are told where they follow from nodes."""
        told = self.at if "workers" in self.at else {"workers": str(self.step.layout.workers), **self.at}
        return ", ".join(f"{name}={value}" for name, value in told.items())

    @property
    def sentence(self) -> str:
        """What dominates, and what would hide the exchange."""
        step = self.step
        if self.hiding is None:
            return f"{step.why}; even accumulate:{LARGEST_K} would not hide the exchange"
        helps = self.hiding > step.layout.accumulate and step.exposed > HIDDEN * step.seconds
        return f"{step.why}; accumulate:{self.hiding} would hide the exchange" if helps else step.why

    def document(self) -> dict[str, Any]:
        """As `steplab predict --json` has it."""
        step = self.step
        return {
            "at": self.at, "value": step.seconds, "low": step.low, "high": step.high, "inside": step.inside,
            "workers": step.layout.workers, "nodes": step.layout.nodes, "speedup": step.speedup,
            "compute": step.compute, "contention": step.contention, "exposed": step.exposed, "update": step.update,
            "in_flight": step.in_flight, "buckets": step.buckets, "accumulate": self.hiding, "why": step.why,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class NetworkPredictions:
    """What a network would do to a study's step, one `NetworkPrediction` for each configuration."""

    profile: str
    rows: tuple[NetworkPrediction, ...]
    warnings: tuple[str, ...] = ()
    level: float = 0.9

    def __iter__(self) -> Iterator[NetworkPrediction]:
        return iter(self.rows)

    def __getitem__(self, at: int) -> NetworkPrediction:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def document(self) -> dict[str, Any]:
        """What `steplab predict --network --json` prints."""
        head = {
            "model": "network",
            "target": "t_iter",
            "level": self.level,
            "profile": self.profile,
            "warnings": list(self.warnings),
        }
        return head | {"predictions": [row.document() for row in self]}

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of a table of the predictions."""
        return ("configuration", "t_iter", "90% low", "high", "compute", "exposed", "update", "speed-up")

    @property
    def cells(self) -> list[list[str]]:
        """The rows of a table of `columns`."""
        return [
            [row.described, seconds(row.step.seconds),
             seconds(row.step.low), seconds(row.step.high), seconds(row.step.compute + row.step.contention),
             seconds(row.step.exposed), seconds(row.step.update), f"{row.step.speedup:.2f}"]
            for row in self
        ]  # fmt: skip

    def __repr__(self) -> str:
        return f"<{len(self)} predictions of t_iter by the network {self.profile}>"

    def _repr_html_(self) -> str:
        return display.block(display.table(self.columns, self.cells), *(display.sentence(row.sentence) for row in self))


def predict_network(
    study: Results | Path | str, profile: Profile | Path | str, at: Configuration | Sequence[Configuration],
    calibrate: Results | Path | str | None = None,
) -> NetworkPredictions:  # fmt: skip
    """Predict steps over a network from trials of one host; trials of several hosts only calibrate, if they are given.

    Args:
        study: A study's folder with trials of one worker, phases included; those of several workers on one host tell
            how ranks slow each other down.
        profile: A network profile, or its file: measured (`steplab.network`), or written by hand.
        at: Configurations such as "nodes=4,rate=1gbit,strategy=accumulate:4": workers, nodes, ranks_per_node, rate,
            strategy (sync, sharded, accumulate:4; or accumulate=4), bucket_mb, times_bandwidth, times_latency, and the
            study's own factors where they vary.
        calibrate: A study with a few steps of several hosts over that network, which correct compute and wires.
    """
    from steplab.api.results.results import Results

    wires = profile if isinstance(profile, Profile) else read_network(profile)
    opened, several = (
        each if each is None or isinstance(each, Results) else Results(each) for each in (study, calibrate)
    )
    assert opened is not None
    asked = [at] if isinstance(at, Mapping | str) else list(at)
    if not asked:
        raise ModelError("there is no configuration to predict", hint="give 'nodes=4'")
    tables = Tables(opened.trials, opened.iterations, opened.layers, opened.factors)
    method = USUAL if several is None else Method(calibration=calibration_of(tables, wires, several.trials))
    rows = tuple(_predicted(tables, wires, _texts(each), method) for each in asked)
    told = (warning for row in rows for warning in (row.doubt, _beyond(row, wires)) if warning)
    return NetworkPredictions(wires.name, rows, tuple(dict.fromkeys(told)))


def _beyond(row: NetworkPrediction, profile: Profile) -> str:
    """What a profile does not know of a configuration, or an empty string."""
    if row.step.inside:
        return ""
    measured_within = any(entry.nodes == 1 for entry in profile.ranks)
    if row.step.layout.nodes == 1 and profile.link is not None and not measured_within:
        return "a link tells nothing of an exchange within one host, which is taken to last no time"
    if not profile.ranks and profile.link is not None:
        return f"the link is of {profile.link.nodes} nodes of {profile.link.ranks_per_node}: more are a guess"
    return "so many ranks or messages as large were not measured: their compute and exchange follow from what was"


def _texts(at: Configuration) -> dict[str, str]:
    return parse_configuration(at) if isinstance(at, str) else {str(name): str(value) for name, value in at.items()}


def _predicted(tables: Tables, profile: Profile, at: dict[str, str], method: Method) -> NetworkPrediction:
    _expect_known(at, tables.factors)
    compute = measured_compute(tables, at)
    expect_same_framework(profile, compute)
    layout = _layout(at, profile)
    wires = Wires(profile, at.get("rate", ""), _number(at, "times_bandwidth", 1.0), _number(at, "times_latency", 1.0))
    if at.get("strategy") == SHARDED:
        doubt = UNSEEN if compute.sharded_update is None else UNCOMPARED
        return NetworkPrediction(at, predict_sharded(compute, wires, layout, method), hiding=1, doubt=doubt)
    step = predict_step(compute, wires, layout, method)
    most = predict_step(compute, wires, replace(layout, accumulate=LARGEST_K), method)
    hidden = most.exposed <= HIDDEN * most.seconds
    return NetworkPrediction(at, step, hiding_k(compute, wires, layout, method) if hidden else None)


def _expect_known(at: Mapping[str, str], factors: Sequence[str]) -> None:
    known = (*NUMBERS, *WORDS, *(name for name in factors if name not in (*NUMBERS, *WORDS)))
    for name in at:
        if name not in known:
            raise ModelError(f"there is no factor {name!r}", hint=nearest(name, known))


def _layout(at: Mapping[str, str], profile: Profile) -> Layout:
    counts = {name: int(_number(at, name, 0.0, whole=True)) for name in placement.FACTORS if name in at}
    if problem := placement.impossible(counts):
        raise ModelError(problem)
    if not {"workers", "nodes"} & set(counts):
        raise ModelError("nodes or workers must be given", hint='write "nodes=4"')
    if "nodes" not in counts and "ranks_per_node" not in counts:
        counts["ranks_per_node"] = 1  # over a network, a worker is on a host of its own unless told
    grid = placement.grid(counts)
    bucket = _number(at, "bucket_mb", 0.0)
    return Layout(grid.workers, grid.nodes, accumulation(_strategy(at)), bucket, profile.one_machine)


def _strategy(at: Mapping[str, str]) -> str:
    """The strategy that is asked about, however it is written."""
    each = int(_number(at, "accumulate", 1.0, whole=True))
    strategy = at.get("strategy", f"accumulate:{each}")
    name, _, k = strategy.partition(":")
    counted = k.isdecimal() and len(k) < len(str(MOST)) and int(k) >= 1
    if name not in ("sync", "accumulate", SHARDED) or (counted if name == "accumulate" else k == "") is False:
        hint = f"allowed: 'sync', 'accumulate:4', {SHARDED!r}"
        raise ModelError(f"strategy = {strategy!r} cannot be predicted", hint=hint)
    if name == SHARDED and {"accumulate", "bucket_mb"} & set(at):
        raise ModelError(f"accumulate and bucket_mb are not for strategy = {SHARDED}", hint="leave them out")
    if {"accumulate", "strategy"} <= set(at):
        hint = f"leave one out, or write strategy=accumulate:{each}"
        raise ModelError("accumulate and strategy are both given", hint=hint)
    return strategy


def _number(at: Mapping[str, str], name: str, default: float, whole: bool = False) -> float:
    try:
        value = float(at.get(name, default))
    except ValueError:
        value = float("nan")
    right = 0 < value < MOST or (name == "bucket_mb" and value == 0) or name not in at
    if not right or (whole and value != int(value)):
        raise ModelError(f"{name} = {at[name]!r} is no {'whole ' if whole else ''}number above 0 and below {MOST}")
    return value
